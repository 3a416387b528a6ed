/* cli/mcp/tools.h - what a client can call: the verbs that read traces. Nothing is written, and only the files that a call
 * names are read. */
#ifndef MTP_CLI_MCP_TOOLS_H
#define MTP_CLI_MCP_TOOLS_H
#include "cli/cli.h"
#include "cli/mcp/json.h"

/* Only traces in these folders may be read; none: any. They are borrowed. false: one is no folder, which was printed. */
bool mcp_allow(char *const *folders, int count);
void mcp_tools_list(FILE *to); /* as a JSON list */
/* Calls a tool. *text: owned by the caller, what it says; *failed: it is an error. false: there is no such tool. */
bool mcp_tools_call(const json *j, int name, int arguments, char **text, size_t *length, bool *failed);
void mcp_tools_end(void); /* closes the traces that were kept */
#endif
