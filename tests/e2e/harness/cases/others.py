"""Cases for the filesystem, memory, time, git and fetch servers: their lists, results and refusals."""

from . import Case
from .everything import call, text

TOOLS = {"do": "list_tools", "expect": {"$listing": "tools"}}
NOTHING = [{"do": "list_resources", "expect": {"$listing": "resources"}},
           {"do": "list_resource_templates", "expect": {"$listing": "resourceTemplates"}},
           {"do": "list_prompts", "expect": {"$listing": "prompts"}}]
UNKNOWN_MODERN_SERVER = call("no_such_tool", error=-32602)
UNKNOWN_LEGACY_SERVER = call("no_such_tool", error=-32602,
                             direct={"error": None, "expect": {**text({"$regex": "-32602"}), "isError": True}})

CASES = [
    Case("files: list", ("files",), [TOOLS], inspector=True),
    Case("files: read", ("files",), [
        call("read_text_file", {"path": "${files}/lock.txt", "head": 2}, expect={
            **text("first\nsecond"), "structuredContent": {"content": "first\nsecond"}}),
        call("read_text_file", {"path": "${files}/umlaut ä.txt"}, expect=text("grün ✓\n")),
        call("list_directory", {"path": "${files}"}, expect=text({"$regex": r"\[FILE\] lock\.txt"})),
        call("list_allowed_directories", expect=text({"$regex": "${files}$"})),
    ], inspector=True),
    Case("files: write", ("files",), [
        call("write_file", {"path": "${files}/${id}.txt", "content": "a\nb\n"}, expect=text({"$regex": "Successfully"})),
        call("edit_file", {"path": "${files}/${id}.txt", "edits": [{"oldText": "b", "newText": "c"}]},
             expect=text({"$regex": r"\+c"})),
        call("read_text_file", {"path": "${files}/${id}.txt"}, expect=text("a\nc\n")),
    ]),
    Case("files: refusals", ("files",), [
        call("read_text_file", {"path": "/etc/hostname"}, expect={**text({"$regex": "(?i)access denied"}), "isError": True}),
        UNKNOWN_LEGACY_SERVER,
    ]),
    Case("memory: lists", ("memory",), [TOOLS, *NOTHING[:2]], inspector=True),
    # The graph is a file of a single process: concurrent writers would lose each other's lines.
    Case("memory: a graph", ("memory",), [
        call("create_entities", {"entities": [{"name": "${id}", "entityType": "boat", "observations": ["floats"]}]},
             expect={"structuredContent": {"entities": [{"name": "${id}"}]}}),
        call("open_nodes", {"names": ["${id}"]}, expect={"structuredContent": {"entities": [
            {"name": "${id}", "entityType": "boat", "observations": ["floats"]}]}}),
        {"do": "read_resource", "uri": "memory://knowledge-graph", "expect": {"contents": [
            {"uri": {"$uri": "memory://knowledge-graph"}, "mimeType": "application/json", "text": {"$regex": "${id}"}}]}},
        call("delete_entities", {"entityNames": ["${id}"]}, expect={"structuredContent": {"success": True}}),
    ], exclusive=True),
    Case("memory: refusals", ("memory",), [UNKNOWN_LEGACY_SERVER]),
    Case("time: lists", ("time",), [TOOLS, *NOTHING], inspector=True),
    Case("time: tools answer", ("time",), [
        call("get_current_time", {"timezone": "UTC"}, expect={
            **text({"$regex": "datetime"}),
            "structuredContent": {"timezone": "UTC", "datetime": {"$regex": r"^20\d\d-.*\+00:00$"}, "is_dst": False}}),
        call("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}, expect={
            "structuredContent": {"time_difference": "+9.0h", "target": {"datetime": {"$regex": "T21:00:00"}}}}),
    ], inspector=True),
    Case("time: refusals", ("time",), [
        call("get_current_time", {"timezone": "Nowhere/Land"}, expect={
            **text({"$regex": "Invalid timezone"}), "isError": True}),
        UNKNOWN_MODERN_SERVER,
    ]),
    Case("git: lists", ("git",), [TOOLS, *NOTHING], inspector=True),
    Case("git: tools answer", ("git",), [
        call("git_status", {"repo_path": "${repository}"}, expect=text({"$regex": r"modified:\s+a\.txt"})),
        call("git_log", {"repo_path": "${repository}", "max_count": 3}, expect={"content": {"$has": [
            {"text": {"$regex": "Open the gate"}}]}}),
        call("git_diff_unstaged", {"repo_path": "${repository}"}, expect=text({"$regex": r"-one\s+\+two"})),
    ], inspector=True),
    Case("git: refusals", ("git",), [
        call("git_status", {"repo_path": "/"}, expect={**text({"$any": True}), "isError": True}),
        call("git_show", {"repo_path": "${repository}", "revision": "no-such-revision"}, expect={"isError": True}),
        UNKNOWN_MODERN_SERVER,
    ]),
    Case("fetch: lists", ("fetch",), [TOOLS, *NOTHING], inspector=True),
    Case("fetch: a tool and a prompt of one name", ("fetch",), [
        call("fetch", {"url": "${page}"}, expect=text({"$regex": "Water rises behind the gate"})),
        {"do": "get_prompt", "name": "fetch", "arguments": {"url": "${page}"}, "expect": {"messages": [
            {"role": "user", "content": {"type": "text", "text": {"$regex": "Water rises behind the gate"}}}]}},
    ], inspector=True),
    Case("fetch: refusals", ("fetch",), [
        call("fetch", {"url": "${page}x"}, expect={**text({"$regex": "404"}), "isError": True}),
        UNKNOWN_MODERN_SERVER,
    ]),
]
