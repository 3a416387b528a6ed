/* tests/unit/faulty_plugin.h - what goes wrong in faulty_plugin.c. */
#ifndef TESTS_FAULTY_PLUGIN_H
#define TESTS_FAULTY_PLUGIN_H
#include <mtprof_device.h>

typedef enum faulty_kind {
    FAULTY_MEMORY, /* alloc: MTP_E_NOMEM */
    FAULTY_BUILD,  /* kernel_build: MTP_E_FORMAT, with a compiler's words */
    FAULTY_LAUNCH, /* launch: MTP_E_STATE */
    FAULTY_EVENTS, /* events are never done, waiting fails, there are no times */
    FAULTY_LOST,   /* whatever is asked: MTP_E_STATE */
    FAULTY_LARGE,  /* alloc of more than so many MiB: MTP_E_NOMEM */
    FAULTY_NOTHING,
    FAULTY_KINDS
} faulty_kind;

MTP_API void faulty_set(faulty_kind kind, int after);
MTP_API void faulty_clear(void);
#endif
