/* cli/mcp.c - mtprof mcp: the verbs for language models, by the Model Context Protocol on standard input and output.
 *
 * JSON-RPC 2.0, a message per line. One request at a time, answered in order: a cancellation comes too late and is ignored.
 * The server reads the files that calls name, and writes nothing but its answers.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/plain.h"
#include "cli/cli.h"
#include "cli/mcp/tools.h"

#define MESSAGE_BYTES (1u << 20) /* longer ones are refused */

static const char help[] =
    "usage: mtprof mcp [options] [FOLDER...]\n\n"
    "Serves traces to language models by the Model Context Protocol, on standard input and output: for\n"
    "programs that start such servers, not for people. The tools are explain, show, stats, steps, memory\n"
    "and diff, each with a budget of tokens. Traces are read on this machine, and only those that a call\n"
    "names; with FOLDERs, only traces in them. Nothing is written.\n\n" CLI_MEMORY_HELP "\n"
    "  mtprof mcp\n"
    "  mtprof mcp traces\n"
    "  {\"mcpServers\": {\"mtprof\": {\"command\": \"mtprof\", \"args\": [\"mcp\"]}}}      a client's "
    "settings\n";

enum { /* JSON-RPC's */
    NOT_JSON = -32700,
    NOT_A_REQUEST = -32600,
    NO_SUCH_METHOD = -32601,
    WRONG_PARAMETERS = -32602
};

static const char *const versions[] = {"2025-11-25", "2025-06-18", "2025-03-26",
                                       "2024-11-05"}; /* newest first */

typedef struct request {
    const json *j;
    int id; /* JSON_NONE: a notification */
    int params;
} request;

/* Several requests in one message, which 2025-03-26 has: their answers are one list. */
static struct {
    bool open;
    unsigned answers;
} batch;

/* ---------------------------------------------------------------------------------------------- answering */

static void begin(const request *r)
{
    if (batch.open)
        fputc(batch.answers++ == 0 ? '[' : ',', stdout);
    fputs("{\"jsonrpc\":\"2.0\",\"id\":", stdout);
    const json_value *id = r != NULL && r->id != JSON_NONE ? &r->j->value[r->id] : NULL;
    if (id == NULL)
        fputs("null", stdout);
    else if (id->kind == '"')
        printf("\"%.*s\"", id->to - id->from, r->j->text + id->from); /* as it was: with its escapes */
    else
        printf("%.*s", id->to - id->from, r->j->text + id->from);
}

static void end(void)
{
    if (!batch.open)
        fputc('\n', stdout);
}

static void refuse(const request *r, int code, const char *why)
{
    begin(r);
    printf(",\"error\":{\"code\":%d,\"message\":", code);
    json_put(stdout, why, strlen(why));
    fputs("}}", stdout);
    end();
}

static void initialize(const request *r)
{
    const char *version = versions[0];
    int wanted = json_member(r->j, r->params, "protocolVersion");
    if (wanted == JSON_NONE || r->j->value[wanted].kind != '"') {
        refuse(r, WRONG_PARAMETERS, "initialize: protocolVersion is missing, or no text");
        return;
    }
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        version = json_is(r->j, wanted, versions[i]) ? versions[i] : version;
    begin(r);
    printf(
        ",\"result\":{\"protocolVersion\":\"%s\",\"capabilities\":{\"tools\":{\"listChanged\":false}},"
        "\"serverInfo\":"
        "{\"name\":\"mtprof\",\"title\":\"mtprof, a profiler for tensor "
        "programs\",\"version\":\"%s\"},\"instructions\":"
        "\"Begin with explain: it says what stands out in a trace. show expands the ids that it names.\"}}",
        version, mtp_version());
    end();
}

static void call_tool(const request *r)
{
    char *text = NULL;
    size_t length = 0;
    bool failed = false;
    int name = json_member(r->j, r->params, "name"), arguments = json_member(r->j, r->params, "arguments");
    if (name == JSON_NONE || r->j->value[name].kind != '"' ||
        (arguments != JSON_NONE && r->j->value[arguments].kind != '{')) {
        refuse(r, WRONG_PARAMETERS, "tools/call: expected a name, and arguments as an object");
    } else if (!mcp_tools_call(r->j, name, arguments, &text, &length, &failed)) {
        refuse(r, WRONG_PARAMETERS, "tools/call: there is no tool of that name; tools/list has them all");
    } else {
        begin(r);
        fputs(",\"result\":{\"content\":[{\"type\":\"text\",\"text\":", stdout);
        json_put(stdout, text != NULL ? text : "", length);
        printf("}],\"isError\":%s}}", failed ? "true" : "false");
        end();
    }
    free(text);
}

static void list_tools(const request *r)
{
    begin(r);
    fputs(",\"result\":{\"tools\":", stdout);
    mcp_tools_list(stdout);
    fputs("}}", stdout);
    end();
}

static void ping(const request *r)
{
    begin(r);
    fputs(",\"result\":{}}", stdout);
    end();
}

/* ----------------------------------------------------------------------------------------------- requests */

static const struct {
    const char *name;
    void (*answer)(const request *r);
} methods[] = {
    {"initialize", initialize}, {"ping", ping}, {"tools/list", list_tools}, {"tools/call", call_tool}};

static bool is_id(const json *j, int id)
{
    return j->value[id].kind == '"' || j->value[id].kind == '0';
}

static void handle(const json *j, int message)
{
    request r = {j, json_member(j, message, "id"), json_member(j, message, "params")};
    int method = json_member(j, message, "method");
    bool is_answer = method == JSON_NONE && (json_member(j, message, "result") != JSON_NONE ||
                                             json_member(j, message, "error") != JSON_NONE);
    if (is_answer)
        return; /* we ask nothing */
    if (r.id != JSON_NONE && !is_id(j, r.id))
        r.id = JSON_NONE, method = JSON_NONE;
    if (method == JSON_NONE || j->value[method].kind != '"' ||
        !json_is(j, json_member(j, message, "jsonrpc"), "2.0")) {
        refuse(&r, NOT_A_REQUEST,
               "not a JSON-RPC 2.0 request with a method and an id that is a text or a number");
        return;
    }
    if (r.id == JSON_NONE)
        return; /* a notification: initialized, cancelled, ... */
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (json_is(j, method, methods[i].name)) {
            methods[i].answer(&r);
            return;
        }
    refuse(&r, NO_SUCH_METHOD, "this server knows initialize, ping, tools/list and tools/call");
}

static void handle_all(const char *text, size_t length)
{
    static json j; /* large */
    if (!json_read(&j, text, length)) {
        refuse(NULL, NOT_JSON, "not a JSON message of at most 1 MiB");
        return;
    }
    if (j.value[0].kind != '[' || j.value[0].next == 1) {
        handle(&j, 0);
        return;
    }
    batch.open = true;
    batch.answers = 0;
    for (int i = 1; i < j.value[0].next; i = j.value[i].next)
        handle(&j, i);
    batch.open = false;
    if (batch.answers > 0)
        fputs("]\n", stdout);
}

static bool is_blank(const char *text, size_t length)
{
    return strspn(text, " \t\r\n") >= length;
}

/* Until the input ends. A message that is too long is read to its end, and refused. */
static int serve(void)
{
    char *message = malloc(MESSAGE_BYTES + 1);
    size_t length = 0;
    bool too_long = false;
    if (message == NULL)
        return cli_fail(CLI_MEMORY, "no memory for messages");
    for (int c = 0; c != EOF && !ferror(stdout);) {
        c = getc(stdin);
        if (c != EOF && c != '\n') {
            too_long |= length == MESSAGE_BYTES;
            if (length < MESSAGE_BYTES)
                message[length++] = (char)c;
            continue;
        }
        message[length] = 0;
        if (too_long)
            refuse(NULL, NOT_JSON, "not a JSON message of at most 1 MiB");
        else if (!is_blank(message, length))
            handle_all(message, length);
        fflush(stdout);
        length = 0;
        too_long = false;
    }
    free(message);
    mcp_tools_end();
    return CLI_OK;
}

int cli_mcp(int argc, char **argv)
{
    static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {0, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;)
        return c == 'h' ? cli_help(help) : cli_usage_error();
    if (!mcp_allow(argv + optind, argc - optind))
        return CLI_USAGE;
    if (isatty(STDIN_FILENO))
        cli_note("waiting for messages of the Model Context Protocol; end with Ctrl-D");
    return serve();
}
