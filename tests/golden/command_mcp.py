#!/usr/bin/env python3
"""mtprof mcp as clients use it. usage: command_mcp.py MTPROF TRACE      TRACE: as for command.py"""
import json
import os
import subprocess
import sys

from command_base import equal, finish, MTPROF, refused, run, test, TRACE


def served(*messages, args=()):
    """The answers of `mtprof mcp` to these messages, given as objects or raw lines."""
    lines = [m if isinstance(m, (str, bytes)) else json.dumps(m) for m in messages]
    ran = run("mcp", *args, stdin=b"".join((m if isinstance(m, bytes) else m.encode()) + b"\n" for m in lines))
    assert ran.code == 0, ran
    return [json.loads(line) for line in ran.out.splitlines()]


def called(tool, args=(), **arguments):
    answer, = served({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}, args=args)
    content, = answer["result"]["content"]
    equal(content["type"], "text")
    return answer["result"]["isError"], content["text"]


@test
def mcp_speaks_the_protocol(folder):
    def ask(method, number=1, **params):
        return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    for version, answered in (("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25")):
        first, = served(ask("initialize", protocolVersion=version, capabilities={}, clientInfo={"name": "t", "version": "1"}))
        equal(first["result"]["protocolVersion"], answered)
        equal(first["result"]["serverInfo"]["name"], "mtprof")
        assert "tools" in first["result"]["capabilities"]
    equal(served({"jsonrpc": "2.0", "method": "notifications/initialized"},
                 {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
                 {"jsonrpc": "2.0", "id": 4, "result": {}}, "", "  "), [])
    equal(served(ask("ping", "a\"\\\u20ac")), [{"jsonrpc": "2.0", "id": "a\"\\\u20ac", "result": {}}])
    equal(served('{"jsonrpc": "2.0", "id": 3, "method": "p\\u0069ng"}', '{"jsonrpc": "2.0", "id": 3, "m\\u0065thod": "ping"}'),
          [{"jsonrpc": "2.0", "id": 3, "result": {}}] * 2)
    assert "tools" in served('{"jsonrpc": "2.0", "id": 3, "method": "tools\\/list"}')[0]["result"]      # as PHP writes it
    equal(served([ask("ping", 1), {"jsonrpc": "2.0", "method": "notifications/x"}, 7, ask("ping", "b")]),  # of 2025-03-26
          [[{"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "id": None, "error": {
              "code": -32600, "message": "not a JSON-RPC 2.0 request with a method and an id that is a text or a number"}},
            {"jsonrpc": "2.0", "id": "b", "result": {}}]])
    equal(served([{"jsonrpc": "2.0", "method": "notifications/x"}], ask("ping", 5)), [{"jsonrpc": "2.0", "id": 5, "result": {}}])
    tools = served(ask("tools/list"))[0]["result"]["tools"]
    equal([t["name"] for t in tools], ["explain", "show", "stats", "steps", "memory", "diff"])
    for tool in tools:
        schema = tool["inputSchema"]
        equal(schema["type"], "object")
        assert set(schema["required"]) <= set(schema["properties"]) and "budget" in schema["properties"], tool


@test
def mcp_refuses_what_is_not_a_request_and_goes_on(folder):
    ping = {"jsonrpc": "2.0", "id": 9, "method": "ping"}
    for code, message in (
            (-32700, "nonsense"), (-32700, '{"jsonrpc": "2.0", "id": 1, "method": "ping"'), (-32700, '{"a": 01}'), (-32700, "\x00"),
            (-32700, b'{"a": "\xff"}'), (-32700, "[" * 100000), (-32700, '"' + "x" * (1 << 21) + '"'), (-32700, '{"a":"\\ud8"}'),
            (-32600, "[]"), (-32600, "7"), (-32600, {"id": 1, "method": "ping"}), (-32600, {"jsonrpc": "2.0", "id": 1, "method": 7}),
            (-32600, {"jsonrpc": "2.0", "id": None, "method": "ping"}), (-32600, {"jsonrpc": "2.0", "id": {}, "method": "ping"}),
            (-32601, {"jsonrpc": "2.0", "id": 1, "method": "resources/list"}),
            (-32602, {"jsonrpc": "2.0", "id": 1, "method": "initialize"}),
            (-32602, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "rm"}}),
            (-32602, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "explain", "arguments": []}}),
            (-32602, {"jsonrpc": "2.0", "id": 1, "method": "tools/call"})):
        answers = served(message, ping)
        equal([a.get("error", {}).get("code") for a in answers], [code, None])
        equal(answers[1]["id"], 9)


@test
def mcp_serves_traces_within_their_budget(folder):
    for tool, more, word in (("explain", {}, "device-idle-launch-bound"), ("show", {"id": "aten::addmm"}, "aten::addmm"),
                             ("show", {"id": "memory-peak"}, "memory-peak"), ("stats", {}, "aten::mm"), ("steps", {}, "median"),
                             ("stats", {"sort": "count", "by_shape": True}, "[["), ("memory", {}, "peak"),
                             ("diff", {"after": TRACE}, "no change")):
        for budget in (150, 2000):
            failed, text = called(tool, trace=TRACE, budget=budget, **more)
            assert not failed and word in text and len(text.encode()) <= 4 * budget, (tool, budget, text)
        failed, text = called(tool, trace=TRACE, budget=1, **more)
        assert failed and "too small" in text, text
    for arguments, word in (({}, "'trace' is missing"), ({"trace": 7}, "'trace' is not a text"), ({"trace": "/nowhere"}, "No such file"),
                            ({"trace": "/dev/null"}, "not a file"), ({"trace": "-"}, "No such file"),
                            ({"trace": TRACE, "budget": "x"}, "'budget'"), ({"trace": TRACE, "budget": 0}, "'budget'"),
                            ({"trace": None}, "'trace' is missing"), ({"trace": "a\0b"}, "'trace' is empty, too long or odd"),
                            ({"trace": __file__}, "what can be read")):
        failed, text = called("explain", **arguments)
        assert failed and word in text, (arguments, text)
    for tool, arguments, word in (("stats", {"by_shape": "yes"}, "'by_shape' is not true or false"), ("stats", {"by_shape": 1}, "'by_shape'"),
                                  ("stats", {"sort_by": "count"}, "there is no argument 'sort_by'; stats has trace, sort, by_shape, budget"),
                                  ("explain", {"": 1}, "there is no argument ''"), ("explain", {"properties": 1}, "there is no argument"),
                                  ("explain", {"x" * 5000: 1}, "there is no argument"), ("steps", {"a\0b": 1}, "there is no argument")):
        failed, text = called(tool, trace=TRACE, **arguments)      # what a model made up is told, not ignored
        assert failed and word in text and len(text) < 400, (arguments, text)
    equal(called("stats", trace=TRACE, by_shape=None), called("stats", trace=TRACE, by_shape=False))
    equal(called("explain", trace=TRACE, budget=None), called("explain", trace=TRACE))
    (folder / "in").mkdir()
    (folder / "in" / "t.json").write_text('{"traceEvents": []}')
    (folder / "in" / "out.json").symlink_to(TRACE)
    equal(called("explain", args=[folder / "in"], trace=str(folder / "in" / "t.json"))[0], False)
    for path in (TRACE, folder / "in" / "out.json"):
        failed, text = called("explain", args=[folder / "in"], trace=str(path))
        assert failed and "not in a folder" in text, text
    failed, text = called("explain", args=[folder / "in"], trace=str(folder / "in" / "none.json"))
    assert failed and "No such file" in text, text
    for path in ("/nowhere", "/etc/nowhere/at/all", str(folder / "in" / ".." / "none.json")):
        failed, text = called("explain", args=[folder / "in"], trace=path)     # nor does it tell what exists elsewhere
        assert failed and "not in a folder" in text, text
    refused(run("mcp", "/nowhere"), 2, "not a folder")


@test
def mcp_does_not_follow_links_out_of_its_folders(folder):
    spool = folder / "outside" / "secret.mtp"
    (folder / "outside" / "deep").mkdir(parents=True)
    assert run("run", "-o", spool, "--", sys.executable, "-c", "sum(map(int, '123'))").code == 0
    equal(called("stats", args=[folder / "outside"], trace=str(folder / "outside"))[0], False)
    inside = folder / "inside"
    inside.mkdir()
    (inside / "links").mkdir()
    (inside / "links" / "a.mtp").symlink_to(spool)
    (inside / "b.mtp").write_bytes(spool.read_bytes())
    equal(called("stats", args=[inside], trace=str(inside / "b.mtp"))[0], False)
    (inside / "b.mtp.workers").symlink_to(folder / "outside")
    (inside / "c").mkdir()
    (inside / "c" / "d.mtp").write_bytes(spool.read_bytes())
    (inside / "c" / "d.mtp.workers").mkdir()
    (inside / "c" / "d.mtp.workers" / "e.mtp").symlink_to(spool)
    for path in (inside / "links", inside / "b.mtp", inside / "c", inside / "c" / "d.mtp", inside):
        failed, text = called("stats", args=[inside], trace=str(path))
        assert failed and "not in a folder" in text, (path, text)
        equal(called("stats", trace=str(path))[0], False)


@test
def mcp_answers_the_official_client(folder):
    """Where it is installed (PyPI: mcp)."""
    client = """
import asyncio, sys
try:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
except ImportError:
    sys.exit(77)
async def main():
    async with stdio_client(StdioServerParameters(command=sys.argv[1], args=["mcp"])) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            await session.send_ping()
            assert "explain" in [tool.name for tool in (await session.list_tools()).tools]
            answer = await session.call_tool("explain", {"trace": sys.argv[2], "budget": 300})
            assert "device-idle-launch-bound" in answer.content[0].text
asyncio.run(main())
"""
    done = subprocess.run([os.environ.get("MCP_PYTHON", sys.executable), "-c", client, MTPROF, TRACE], capture_output=True)
    assert done.returncode in (0, 77), done.stderr.decode()[-500:]


finish()
