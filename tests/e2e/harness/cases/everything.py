"""Cases for npm server-everything, over stdio and Streamable HTTP: every kind of content, list and notification."""

from . import Case

BOTH = ("everything", "everything-http")
TEXT = "demo://resource/dynamic/text/7"
BLOB = "demo://resource/dynamic/blob/8"
DOCUMENT = "demo://resource/static/document/features.md"


def text(pattern):
    return {"content": [{"type": "text", "text": pattern}]}


def call(name, arguments=None, **keys):
    return {"do": "call_tool", "name": name, "arguments": arguments or {}, **keys}


CASES = [
    Case("lists are complete", BOTH, [
        {"do": "list_tools", "expect": {"$listing": "tools"}},
        {"do": "list_resources", "expect": {"$listing": "resources"}},
        {"do": "list_resource_templates", "expect": {"$listing": "resourceTemplates"}},
        {"do": "list_prompts", "expect": {"$listing": "prompts"}},
    ], inspector=True),
    Case("tools answer", BOTH, [
        call("echo", {"message": "grün ✓ \"quoted\"\nline"}, expect=text("Echo: grün ✓ \"quoted\"\nline")),
        call("get-sum", {"a": 2.5, "b": -1}, expect=text("The sum of 2.5 and -1 is 1.5.")),
    ], inspector=True),
    Case("structured content", BOTH, [
        call("get-structured-content", {"location": "Chicago"}, expect={
            **text({"$regex": "Light rain"}),
            "structuredContent": {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}}),
    ], inspector=True),
    Case("images and annotations", BOTH, [
        call("get-tiny-image", expect={"content": {"$has": [
            {"type": "image", "mimeType": "image/png", "data": {"$regex": "^iVBOR"}}]}}),
        call("get-annotated-message", {"messageType": "error", "includeImage": True}, expect={"content": [
            {"type": "text", "text": "Error: Operation failed",
             "annotations": {"priority": 1, "audience": ["user", "assistant"]}},
            {"type": "image", "annotations": {"priority": 0.5, "audience": ["user"]}}]}),
    ]),
    Case("URIs in tool results", BOTH, [
        call("get-resource-links", {"count": 2}, expect={"content": [
            {"type": "text"},
            {"type": "resource_link", "uri": {"$uri": "demo://resource/dynamic/blob/1"}},
            {"type": "resource_link", "uri": {"$uri": "demo://resource/dynamic/text/2"}}]}),
        call("get-resource-reference", {"resourceType": "Text", "resourceId": 3}, expect={"content": [
            {"type": "text"},
            {"type": "resource", "resource": {"uri": {"$uri": "demo://resource/dynamic/text/3"},
                                              "text": {"$regex": "^Resource 3: "}}},
            {"type": "text"}]}),
    ]),
    Case("tool errors are results", BOTH, [
        call("get-sum", {"a": "x"}, expect={**text({"$regex": "Invalid arguments for tool get-sum"}), "isError": True}),
    ], inspector=True),
    Case("unknown tool", BOTH, [
        call("no-such-tool", error=-32602,
             direct={"error": None, "expect": {**text({"$regex": "-32602"}), "isError": True}}),
    ]),
    Case("resources are read", BOTH, [
        {"do": "read_resource", "uri": DOCUMENT, "expect": {"contents": [
            {"uri": {"$uri": DOCUMENT}, "mimeType": "text/markdown", "text": {"$regex": "Everything"}}]}},
        {"do": "read_resource", "uri": TEXT, "expect": {"contents": [
            {"uri": {"$uri": TEXT}, "text": {"$regex": "^Resource 7: "}}]}},
        {"do": "read_resource", "uri": BLOB, "expect": {"contents": [
            {"uri": {"$uri": BLOB}, "blob": {"$regex": "^UmVzb3VyY2Ug"}}]}},
    ], inspector=True),
    Case("unknown resource", BOTH, [
        {"do": "read_resource", "uri": "demo://resource/none", "modern": {"error": -32602},
         "legacy": {"error": [-32002, -32602]}},
    ], errors=True),
    Case("prompts are got", BOTH, [
        {"do": "get_prompt", "name": "simple-prompt", "expect": {"messages": [
            {"role": "user", "content": {"type": "text", "text": "This is a simple prompt without arguments."}}]}},
        {"do": "get_prompt", "name": "args-prompt", "arguments": {"city": "Köln", "state": "NRW"}, "expect": {
            "messages": [{"content": {"text": "What's weather in Köln, NRW?"}}]}},
        {"do": "get_prompt", "name": "resource-prompt", "arguments": {"resourceType": "Text", "resourceId": "4"},
         "expect": {"messages": [{}, {"content": {"type": "resource", "resource": {
             "uri": {"$uri": "demo://resource/dynamic/text/4"}}}}]}},
    ], inspector=True),
    Case("wrong prompts", BOTH, [
        {"do": "get_prompt", "name": "no-such-prompt", "error": -32602},
        {"do": "get_prompt", "name": "args-prompt", "arguments": {}, "error": -32602},
    ], errors=True),
    Case("completion", BOTH, [
        {"do": "complete", "ref": {"type": "ref/prompt", "name": "completable-prompt"},
         "argument": {"name": "department", "value": "S"},
         "expect": {"completion": {"values": ["Sales", "Support"]}}},
        {"do": "complete", "ref": {"type": "ref/prompt", "name": "completable-prompt"},
         "argument": {"name": "name", "value": ""}, "context": {"department": "Marketing"},
         "expect": {"completion": {"values": ["Grace", "Henry", "Iris"]}}},
        {"do": "complete", "ref": {"type": "ref/resource", "uri": "demo://resource/dynamic/text/{resourceId}"},
         "argument": {"name": "resourceId", "value": "12"}, "expect": {"completion": {"values": ["12"]}}},
    ]),
    Case("progress", BOTH, [
        call("trigger-long-running-operation", {"duration": 1.2, "steps": 4}, progress=True, rising=3,
             expect=text({"$regex": "completed"})),
    ]),
    Case("cancellation", BOTH, [
        call("trigger-long-running-operation", {"duration": 8, "steps": 4}, cancel_after=0.7, error="cancelled"),
        call("echo", {"message": "still here"}, timeout=4, expect=text("Echo: still here")),
    ]),
    Case("concurrent calls", BOTH, [
        {"do": "parallel", "steps": [call("echo", {"message": f"n{i}"}) for i in range(20)], "expect": {"outcomes": [
            {"ok": True, "result": text(f"Echo: n{i}")} for i in range(20)]}},
        {"do": "parallel", "steps": [
            call("trigger-long-running-operation", {"duration": 1, "steps": 2}),
            call("get-sum", {"a": 1, "b": 1}),
            {"do": "read_resource", "uri": TEXT},
            {"do": "get_prompt", "name": "simple-prompt"},
        ], "expect": {"outcomes": [{"ok": True}] * 4}},
    ]),
    Case("ping", BOTH, [{"do": "ping", "expect": {}}], eras=("legacy",)),
    # The server logs each subscription on any transport: a log message that a client can trigger.
    Case("log messages", BOTH, [
        {"do": "set_log_level", "level": "debug", "expect": {}},
        {"do": "mark"},
        {"do": "subscribe", "uri": "demo://resource/dynamic/text/${number}", "notes": [
            {"method": "notifications/message", "params": {"level": "info", "data": {"$regex": "Subscribe"}}}]},
        {"do": "wait_for", "method": "notifications/message", "timeout": 5, "expect": {}},
        {"do": "unsubscribe", "uri": "demo://resource/dynamic/text/${number}", "expect": {}},
    ], eras=("legacy",), exclusive=True),
    Case("no log messages above the level", BOTH, [
        {"do": "set_log_level", "level": "error", "expect": {}},
        {"do": "wait", "seconds": 0.5},  # messages of the previous case may still arrive on another stream
        {"do": "mark"},
        {"do": "subscribe", "uri": "demo://resource/dynamic/text/${number}", "expect": {}},
        {"do": "wait_for", "method": "notifications/message", "timeout": 1, "error": "timeout"},
        {"do": "unsubscribe", "uri": "demo://resource/dynamic/text/${number}", "expect": {}},
        {"do": "set_log_level", "level": "debug", "expect": {}},
    ], eras=("legacy",), exclusive=True),
    Case("resource updates", BOTH, [
        {"do": "mark"},
        {"do": "subscribe", "uri": TEXT, "expect": {}, "eras": ("legacy",)},
        {"do": "listen", "uris": [TEXT], "expect": {"honored": {"resourceSubscriptions": [{"$uri": TEXT}]}},
         "eras": ("modern",)},
        call("toggle-subscriber-updates", expect=text({"$regex": "^Started"}), notes=[
            {"method": "notifications/resources/updated", "params": {"uri": {"$uri": TEXT}}}]),
        {"do": "wait_for", "method": "notifications/resources/updated", "timeout": 8, "expect": {}},
        call("toggle-subscriber-updates", expect=text({"$regex": "^Stopped"})),
        {"do": "unsubscribe", "uri": TEXT, "expect": {}, "eras": ("legacy",)},
    ], exclusive=True),
    Case("list changes", BOTH, [
        {"do": "listen", "lists": ["resources"], "expect": {"honored": {"resourcesListChanged": True}},
         "eras": ("modern",)},
        {"do": "mark"},
        call("gzip-file-as-resource", {"name": "${id}.gz", "data": "data:text/plain,hello"}, expect={"content": [
            {"type": "resource_link", "uri": {"$uri": "demo://resource/session/${id}.gz"}}]}),
        {"do": "wait_for", "method": "notifications/resources/list_changed", "timeout": 6, "expect": {}},
        {"do": "list_resources", "expect": {"resources": {"$has": [
            {"uri": {"$uri": "demo://resource/session/${id}.gz"}, "mimeType": "application/gzip"}]}}},
        {"do": "read_resource", "uri": "demo://resource/session/${id}.gz", "expect": {"contents": [
            {"uri": {"$uri": "demo://resource/session/${id}.gz"}, "blob": {"$regex": "^H4sI"}}]}},
    ], exclusive=True),
]
