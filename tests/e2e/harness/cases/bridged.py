"""Cases of the gateway itself: names at the merged endpoint that belong to no single server."""

from . import Case
from .everything import call, text

CASES = [
    Case("all servers in one list", ("",), [
        {"do": "list_tools", "expect": {"$listing": "tools"}},
        {"do": "list_resources", "expect": {"$listing": "resources"}},
        {"do": "list_resource_templates", "expect": {"$listing": "resourceTemplates"}},
        {"do": "list_prompts", "expect": {"$listing": "prompts"}},
    ], where=("merged", "stdio"), inspector=True),
    Case("names that nobody has", ("",), [
        call("echo", {"message": "x"}, error=-32602),
        call("everything__", {}, error=-32602),
        call("no-such-server__echo", {}, error=-32602),
        call("everything__echo__", {}, error=-32602),
        {"do": "get_prompt", "name": "simple-prompt", "error": -32602},
        {"do": "read_resource", "uri": "demo://resource/dynamic/text/1", "legacy": {"error": [-32002, -32602]},
         "modern": {"error": -32602}},
    ], where=("merged", "stdio")),
    Case("all servers at once", ("",), [
        {"do": "parallel", "steps": [
            call("everything__echo", {"message": "1"}),
            call("everything-http__echo", {"message": "2"}),
            call("files__read_text_file", {"path": "${files}/lock.txt"}),
            call("memory__search_nodes", {"query": "nothing like this"}),
            call("time__get_current_time", {"timezone": "UTC"}),
            call("git__git_status", {"repo_path": "${repository}"}),
            call("fetch__fetch", {"url": "${page}"}),
        ], "expect": {"outcomes": [
            {"ok": True, "result": text("Echo: 1")}, {"ok": True, "result": text("Echo: 2")},
            {"ok": True, "result": text("first\nsecond\nthird\n")}, {"ok": True}, {"ok": True},
            {"ok": True, "result": text({"$regex": "a.txt"})},
            {"ok": True, "result": text({"$regex": "Water rises"})}]}},
    ], where=("merged", "stdio")),
]
