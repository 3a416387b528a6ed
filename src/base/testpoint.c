#include "base/testpoint.h"
#include <stdatomic.h>
#include <stddef.h>

static _Atomic(mtp__testpoint_hook *) the_hook;
static _Atomic(void *) the_user;

void mtp__testpoint_set(mtp__testpoint_hook *hook, void *user)
{
    atomic_store(&the_user, user);
    atomic_store(&the_hook, hook);
}

void mtp__testpoint_hit(mtp__testpoint point)
{
    mtp__testpoint_hook *hook = atomic_load_explicit(&the_hook, memory_order_acquire);
    if (__builtin_expect(hook != NULL, 0))
        hook(point, atomic_load(&the_user));
}

const char *mtp__testpoint_text(mtp__testpoint point)
{
    static const char *const text[] = {
#define X(sym) #sym,
        MTP__TESTPOINT_LIST(X)
#undef X
    };
    return (unsigned)point < MTP__TESTPOINTS ? text[point] : "?";
}
