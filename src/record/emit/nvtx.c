/* record/emit/nvtx.c - the program's half of NVTX 3: ranges for the collector that NVTX_INJECTION64_PATH names. */
#define _GNU_SOURCE
#include <pthread.h>
#include "base/nvtx_abi.h"
#include "record/emit/emit.h"

#define MODULES 7 /* CORE is 1, SYNC is 6; we call functions of CORE alone */
#define VERSION_INFO 3
#define MARK 2 /* slots of CORE */
#define PUSH 9
#define POP 11

/* What the collector supplies; NULL: it does not. Written before `attached` is read. */
static mtp__nvtx_function calls[MODULES][MTP__NVTX_SLOTS];
static bool attached;

static int functions(uint32_t module, mtp__nvtx_function ***out, uint32_t *count)
{
    static mtp__nvtx_function *places[MODULES][MTP__NVTX_SLOTS];
    if (module == 0 || module >= MODULES)
        return 0;
    for (uint32_t i = 1; i < MTP__NVTX_SLOTS; i++) /* 0 is no function */
        places[module][i] = &calls[module][i];
    if (out != NULL)
        *out = places[module];
    if (count != NULL)
        *count = MTP__NVTX_SLOTS;
    return 1;
}

static void set_version(uint32_t version)
{
    (void)version;
}

static const void *exported(uint32_t which)
{
    static const mtp__nvtx_exports callbacks = {sizeof callbacks, functions};
    static const struct {
        size_t size;
        uint32_t version, reserved;
        void (*set)(uint32_t);
    } version = {sizeof version, 3, 0, set_version};
    return which == MTP__NVTX_CALLBACKS ? (const void *)&callbacks
           : which == VERSION_INFO      ? (const void *)&version
                                        : NULL;
}

static void attach_once(void)
{
    int (*init)(mtp__nvtx_export *) = NULL;
    *(void **)&init = mtp__tool_load("NVTX_INJECTION64_PATH", "InitializeInjectionNvtx2");
    attached = init != NULL && init(exported) != 0 && calls[MTP__NVTX_CORE][PUSH] != NULL &&
               calls[MTP__NVTX_CORE][POP] != NULL;
}

static bool attach(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, attach_once);
    return attached;
}

static int push(const char *text)
{
    return ((int (*)(const char *))calls[MTP__NVTX_CORE][PUSH])(text);
}

static int pop(void)
{
    return ((int (*)(void))calls[MTP__NVTX_CORE][POP])();
}

static void mark(const char *text)
{
    if (calls[MTP__NVTX_CORE][MARK] != NULL)
        ((void (*)(const char *))calls[MTP__NVTX_CORE][MARK])(text);
}

const mtp__tool mtp__tool_nvtx = {attach, push, pop, mark};
