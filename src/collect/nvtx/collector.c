/* collect/nvtx/collector.c - a collector for programs that speak NVTX 3: PyTorch's emit_nvtx, RAPIDS, NCCL, JAX.
 *
 *     NVTX_INJECTION64_PATH=/path/libmtprof_nvtx.so MTPROF_OUT=trace.json program
 *
 * Each shared object of the program that uses NVTX calls InitializeInjectionNvtx2 at its first NVTX call. With
 * MTPROF_OUT the process is profiled from then on; without, NVTX is recorded into whatever profile runs. See
 * docs/collectors.md.
 *
 * A range of a domain is shown as "domain::message". Payload and category are shown with the event; colours are
 * not. The payload extension (schemas.c) uses the same ranges. Threads: any.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/nvtx_abi.h"
#include "collect/nvtx/nvtx.h"
#include "collect/own.h"
#include "collect/ranges.h"

#define WIDE_ROOM 1024 /* bytes of UTF-8 */
#define ARGS_ROOM 2048
#define NO_TRACKING (-2) /* NVTX's answer where levels are not known */

typedef struct category {
    struct category *next; /* owned */
    uint32_t id;
    char json[]; /* its name, quoted */
} category;

/* Kept for the life of the process: ranges and strings refer to it. */
typedef struct domain {
    struct domain *next;
    category *categories; /* the newest of an id counts. pairs: name_category */
    char name[];
} domain;

/* What a registered string's handle points to. */
typedef struct registered {
    uint32_t name;
    struct registered *next;
    domain *of;
    char text[];
} registered;

static domain *unnamed; /* the default domain, which the functions without one use; set before any call */
static domain *domains;
static registered *strings;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the three lists */
static bool recorded;

static bool is_wanted(void)
{
    return MTP__UNLIKELY(mtp_recording() & MTP_CPU);
}

/* ------------------------------------------------------------------------------- domains and strings */

static domain *find_domain(const char *name)
{
    domain *d = domains;
    while (d != NULL && strcmp(d->name, name) != 0)
        d = d->next;
    return d;
}

static domain *make_domain(const char *name)
{
    size_t length = strlen(name);
    domain *d = calloc(1, sizeof *d + length + 1);
    if (d == NULL)
        return NULL;
    memcpy(d->name, name, length + 1);
    d->next = domains;
    domains = d;
    return d;
}

static void *domain_create_a(const char *name)
{
    if (name == NULL)
        return NULL;
    pthread_mutex_lock(&lock);
    domain *d = find_domain(name);
    if (d == NULL)
        d = make_domain(name);
    pthread_mutex_unlock(&lock);
    return d;
}

static void *domain_create_w(const wchar_t *name)
{
    char text[WIDE_ROOM];
    mtp__range_narrow(name, text, sizeof text);
    return name != NULL ? domain_create_a(text) : NULL;
}

/* The program may have ranges open, and may create it again. */
static void domain_destroy(void *handle)
{
    (void)handle;
}

static domain *domain_of(void *handle)
{
    return handle != NULL ? handle : unnamed;
}

static registered *make_string(domain *d, const char *text)
{
    size_t length = strlen(text);
    registered *r = malloc(sizeof *r + length + 1);
    if (r == NULL)
        return NULL;
    memcpy(r->text, text, length + 1);
    r->name = mtp__range_name(d->name, text);
    r->of = d;
    r->next = strings;
    strings = r;
    return r;
}

static void *domain_register_string_a(void *handle, const char *text)
{
    domain *d = domain_of(handle);
    if (text == NULL)
        return NULL;
    pthread_mutex_lock(&lock);
    registered *r = strings;
    while (r != NULL && (r->of != d || strcmp(r->text, text) != 0))
        r = r->next;
    if (r == NULL)
        r = make_string(d, text);
    pthread_mutex_unlock(&lock);
    return r;
}

static void *domain_register_string_w(void *handle, const wchar_t *text)
{
    char narrow[WIDE_ROOM];
    mtp__range_narrow(text, narrow, sizeof narrow);
    return text != NULL ? domain_register_string_a(handle, narrow) : NULL;
}

/* Handles in payloads may be anything: those of events are not looked up. */
const char *mtp__nvtx_string(const void *handle)
{
    pthread_mutex_lock(&lock);
    const registered *r = strings;
    while (r != NULL && r != handle)
        r = r->next;
    pthread_mutex_unlock(&lock);
    return r != NULL ? r->text : NULL;
}

/* -------------------------------------------------------------------------------- categories, payloads */

static void domain_name_category_a(void *handle, uint32_t id, const char *name)
{
    domain *d = domain_of(handle);
    category *c = name != NULL && strlen(name) < WIDE_ROOM ? malloc(sizeof *c + 6 * strlen(name) + 3) : NULL;
    if (c == NULL)
        return;
    c->id = id;
    mtp__nvtx_quote(c->json, name);
    pthread_mutex_lock(&lock);
    c->next = d->categories;
    __atomic_store_n(&d->categories, c, __ATOMIC_RELEASE); /* pairs: put_category */
    pthread_mutex_unlock(&lock);
}

static void domain_name_category_w(void *handle, uint32_t id, const wchar_t *name)
{
    char narrow[WIDE_ROOM];
    mtp__range_narrow(name, narrow, sizeof narrow);
    if (name != NULL)
        domain_name_category_a(handle, id, narrow);
}

static size_t put_category(char *at, size_t room, const domain *d, uint32_t id)
{
    const category *c = __atomic_load_n(&d->categories, __ATOMIC_ACQUIRE); /* pairs: name_category */
    while (c != NULL && c->id != id)
        c = c->next;
    int n = c != NULL && strlen(c->json) < room - 64 ? snprintf(at, room, "\"category\": %s", c->json)
                                                     : snprintf(at, room, "\"category\": %" PRIu32, id);
    return (size_t)n;
}

static const mtp__nvtx_data *data_of(const mtp__nvtx_event *e)
{
    return e->payload_type == MTP__NVTX_DATA
               ? (const mtp__nvtx_data *)(uintptr_t)e->payload.u64 /* NOLINT(performance-no-int-to-ptr) */
               : NULL;
}

static size_t data_count(const mtp__nvtx_event *e)
{
    return e->reserved > 0 ? (size_t)e->reserved : 0;
}

static size_t put_real(char *at, size_t room, double value)
{
    static const char key[] = "\"payload\": ";
    memcpy(at, key, sizeof key);
    return sizeof key - 1 + mtp__nvtx_real(at + sizeof key - 1, room - (sizeof key - 1), value);
}

static size_t put_payload(char *at, size_t room, const domain *d, const mtp__nvtx_event *e)
{
    switch (e->payload_type) {
    case MTP__NVTX_U64:
        return (size_t)snprintf(at, room, "\"payload\": %" PRIu64, e->payload.u64);
    case MTP__NVTX_S64:
        return (size_t)snprintf(at, room, "\"payload\": %" PRId64, e->payload.s64);
    case MTP__NVTX_DOUBLE:
        return put_real(at, room, e->payload.d);
    case MTP__NVTX_U32:
        return (size_t)snprintf(at, room, "\"payload\": %" PRIu32, e->payload.u32);
    case MTP__NVTX_S32:
        return (size_t)snprintf(at, room, "\"payload\": %" PRId32, e->payload.s32);
    case MTP__NVTX_FLOAT:
        return put_real(at, room, (double)e->payload.f);
    case MTP__NVTX_DATA:
        return mtp__nvtx_put_data(at, room, d, data_of(e), data_count(e));
    default:
        return 0;
    }
}

/* ------------------------------------------------------------------------------------------- ranges */

/* The text of an event, and its id if that is known without looking it up: registered strings. */
typedef struct message {
    uint32_t name;
    const char *text;
    char wide[WIDE_ROOM];
} message;

static void read_message(message *m, const domain *d, const mtp__nvtx_event *e)
{
    m->name = 0;
    m->text = "?";
    if (e->message_type == MTP__NVTX_REGISTERED && e->message.registered != NULL) {
        m->name = ((const registered *)e->message.registered)->name;
    } else if (e->message_type == MTP__NVTX_ASCII && e->message.ascii != NULL) {
        m->text = e->message.ascii;
    } else if (e->message_type == MTP__NVTX_WIDE && e->message.wide != NULL) {
        mtp__range_narrow(e->message.wide, m->wide, sizeof m->wide);
        m->text = m->wide;
    } else if (e->message_type == 0 && data_of(e) != NULL) {
        const char *text = mtp__nvtx_data_text(d, data_of(e), data_count(e), m->wide, sizeof m->wide);
        m->text = text != NULL ? text : "?";
    }
}

/* Names that are not registered are kept for the recording only: a program may make them up as it goes. */
static void begin_text(mtp_op *op, const domain *d, const char *text)
{
    char near[512], *joined = near;
    size_t prefix = strlen(d->name), length = strlen(text);
    if (prefix == 0) {
        mtp_op_begin_text(op, text, length);
        return;
    }
    if (prefix + 2 + length > sizeof near)
        joined = malloc(prefix + 2 + length);
    if (joined == NULL) {
        mtp_op_begin_text(op, text, length);
        return;
    }
    memcpy(joined, d->name, prefix);
    memcpy(joined + prefix, "::", 2);
    memcpy(joined + prefix + 2, text, length);
    mtp_op_begin_text(op, joined, prefix + 2 + length);
    if (joined != near)
        free(joined);
}

static mtp_token begin(const domain *d, const mtp__nvtx_event *e)
{
    message m;
    char args[ARGS_ROOM];
    mtp_op op = MTP_OP_INIT(0);
    if (e == NULL)
        return 0;
    read_message(&m, d, e);
    op.kind = MTP_SCOPE_USER;
    memcpy(args, MTP_ARGS_MEMBERS, 1);
    size_t n = 1;
    if (e->category != 0)
        n += put_category(args + n, sizeof args - n, d, e->category);
    if (e->payload_type != 0) {
        size_t comma = n > 1 ? (memcpy(args + n, ", ", 2), 2) : 0;
        size_t more = put_payload(args + n + comma, sizeof args - n - comma, d, e);
        n += more > 0 ? comma + more : 0;
    }
    args[n] = 0;
    op.args = n > 1 ? args : NULL;
    op.name = m.name;
    if (m.name != 0)
        mtp_op_begin(&op);
    else
        begin_text(&op, d, m.text);
    return op.token;
}

/* The common cases: no payload, no category, and a name that needs no prefix. */
static inline mtp_token begin_event(const domain *d, const mtp__nvtx_event *e)
{
    __atomic_store_n(&recorded, true, __ATOMIC_RELAXED);
    mtp__ranges_settle();
    if (e != NULL && e->category == 0 && e->payload_type == 0) {
        if (e->message_type == MTP__NVTX_REGISTERED && e->message.registered != NULL)
            return mtp_scope_begin(((const registered *)e->message.registered)->name);
        if (e->message_type == MTP__NVTX_ASCII && e->message.ascii != NULL && d == unnamed)
            return mtp_scope_begin_text(e->message.ascii, strlen(e->message.ascii));
    }
    return begin(d, e);
}

static int push(domain *d, const mtp__nvtx_event *e)
{
    int level = is_wanted() ? mtp__ranges_push(d, begin_event(d, e)) : mtp__ranges_skip(d);
    return level >= 0 ? level : NO_TRACKING;
}

static int pop(const domain *d)
{
    int level = mtp__ranges_end(d);
    return level >= 0 ? level : NO_TRACKING;
}

/* What is known by the number alone, on any thread. */
static uint64_t start(domain *d, const mtp__nvtx_event *e)
{
    static uint64_t last;
    uint64_t id = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    if (!is_wanted())
        return id;
    mtp__range_key key = {{id}};
    message m;
    mtp_token token = begin_event(d, e);
    if (e != NULL)
        read_message(&m, d, e);
    mtp__range_start(&key, token, e == NULL ? 0 : m.name != 0 ? m.name : MTP_NAME("end of a range"));
    return id;
}

static void end(uint64_t id)
{
    mtp__range_key key = {{id}};
    mtp__range_end(&key);
}

static void mark(const domain *d, const mtp__nvtx_event *e)
{
    message m;
    if (!is_wanted() || e == NULL)
        return;
    read_message(&m, d, e);
    mtp_mark(m.name != 0 ? m.name : mtp__range_name(d->name, m.text));
    __atomic_store_n(&recorded, true, __ATOMIC_RELAXED);
}

/* --------------------------------------------------------------------------------- the interface's forms */

#define OF_TEXT(t)                                                                                           \
    &(mtp__nvtx_event)                                                                                       \
    {                                                                                                        \
        .message_type = MTP__NVTX_ASCII, .message.ascii = (t)                                                \
    }
#define OF_WIDE(t)                                                                                           \
    &(mtp__nvtx_event)                                                                                       \
    {                                                                                                        \
        .message_type = MTP__NVTX_WIDE, .message.wide = (t)                                                  \
    }

static void domain_mark_ex(void *d, const mtp__nvtx_event *e)
{
    mark(domain_of(d), e);
}

static void mark_ex(const mtp__nvtx_event *e)
{
    mark(unnamed, e);
}

static void mark_a(const char *text)
{
    mark(unnamed, OF_TEXT(text));
}

static void mark_w(const wchar_t *text)
{
    mark(unnamed, OF_WIDE(text));
}

static uint64_t domain_range_start_ex(void *d, const mtp__nvtx_event *e)
{
    return start(domain_of(d), e);
}

static uint64_t range_start_ex(const mtp__nvtx_event *e)
{
    return start(unnamed, e);
}

static uint64_t range_start_a(const char *text)
{
    return start(unnamed, OF_TEXT(text));
}

static uint64_t range_start_w(const wchar_t *text)
{
    return start(unnamed, OF_WIDE(text));
}

static void range_end(uint64_t id)
{
    end(id);
}

static void domain_range_end(void *d, uint64_t id)
{
    (void)d;
    end(id);
}

static int domain_range_push_ex(void *d, const mtp__nvtx_event *e)
{
    return push(domain_of(d), e);
}

static int range_push_ex(const mtp__nvtx_event *e)
{
    return push(unnamed, e);
}

static int range_push_a(const char *text)
{
    return push(unnamed, OF_TEXT(text));
}

static int range_push_w(const wchar_t *text)
{
    return push(unnamed, OF_WIDE(text));
}

static int range_pop(void)
{
    return pop(unnamed);
}

static int domain_range_pop(void *d)
{
    return pop(domain_of(d));
}

static void name_category_a(uint32_t id, const char *name)
{
    domain_name_category_a(NULL, id, name);
}

static void name_category_w(uint32_t id, const wchar_t *name)
{
    domain_name_category_w(NULL, id, name);
}

static void name_thread_a(uint32_t thread, const char *name)
{
    if (name != NULL)
        mtp_thread_name(thread, name);
}

static void name_thread_w(uint32_t thread, const wchar_t *name)
{
    char narrow[WIDE_ROOM];
    mtp__range_narrow(name, narrow, sizeof narrow);
    if (name != NULL)
        mtp_thread_name(thread, narrow);
}

static void initialize(const void *reserved)
{
    (void)reserved;
}

/* --------------------------------------------------------------------------------- the payload extension */

#define OF_DATA(d, n)                                                                                        \
    &(mtp__nvtx_event)                                                                                       \
    {                                                                                                        \
        .payload_type = MTP__NVTX_DATA, .payload.u64 = (uintptr_t)(d),                                       \
        .reserved = (n) < INT32_MAX ? (int32_t)(n) : INT32_MAX                                               \
    }

static uint64_t register_schema(void *d, const mtp__nvtx_schema *schema)
{
    return mtp__nvtx_schema_add(domain_of(d), schema);
}

static uint64_t register_enum(void *d, const mtp__nvtx_enum *made)
{
    return mtp__nvtx_enum_add(domain_of(d), made);
}

static void mark_payload(void *d, const mtp__nvtx_data *data, size_t count)
{
    mark(domain_of(d), OF_DATA(data, count));
}

static int push_payload(void *d, const mtp__nvtx_data *data, size_t count)
{
    return push(domain_of(d), OF_DATA(data, count));
}

/* What the end adds is not shown: args are written when the range begins. */
static int pop_payload(void *d, const mtp__nvtx_data *data, size_t count)
{
    (void)data, (void)count;
    return pop(domain_of(d));
}

static uint64_t start_payload(void *d, const mtp__nvtx_data *data, size_t count)
{
    return start(domain_of(d), OF_DATA(data, count));
}

static void end_payload(void *d, uint64_t id, const mtp__nvtx_data *data, size_t count)
{
    (void)d, (void)data, (void)count;
    end(id);
}

static uint8_t is_domain_enabled(void *d)
{
    (void)d;
    return 1; /* a program may ask once, before it is recorded */
}

/* ------------------------------------------------------------------------------------------ the start */

static void hold_lock(void)
{
    pthread_mutex_lock(&lock);
}

static void release_lock(void)
{
    pthread_mutex_unlock(&lock);
}

static bool has_recorded(void)
{
    return __atomic_load_n(&recorded, __ATOMIC_RELAXED);
}

static void report(void)
{
}

static const mtp__collector nvtx = {"the NVTX collector", has_recorded, report};

static void start_once(void)
{
    unnamed = make_domain("");
    if (unnamed == NULL)
        return;
    mtp__ranges_init();
    pthread_atfork(hold_lock, release_lock, release_lock);
    mtp__own_start(&nvtx);
}

typedef struct slot {
    uint32_t module, number;
    mtp__nvtx_function function;
} slot;

#define X(module, number, name) {MTP__NVTX_##module, number, (mtp__nvtx_function)name},
static const slot slots[] = {MTP__NVTX_SLOT_LIST(X)};
#undef X

static void supply(const mtp__nvtx_exports *exports, uint32_t module)
{
    mtp__nvtx_function **places = NULL;
    uint32_t count = 0;
    if (exports->functions(module, &places, &count) == 0 || places == NULL)
        return;
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        if (slots[i].module == module && slots[i].number < count && places[slots[i].number] != NULL)
            __atomic_store_n(places[slots[i].number], slots[i].function, __ATOMIC_RELEASE);
}

static bool is_started(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_once);
    return unnamed != NULL;
}

MTP_API int InitializeInjectionNvtx2(mtp__nvtx_export *get);
MTP_API int InitializeInjectionNvtxExtension(mtp__nvtx_module *module);

/* 1: we are used. 0: the program's NVTX goes on without us. */
int InitializeInjectionNvtx2(mtp__nvtx_export *get)
{
    const mtp__nvtx_exports *exports = get != NULL ? get(MTP__NVTX_CALLBACKS) : NULL;
    if (exports == NULL || exports->size < sizeof *exports || exports->functions == NULL)
        return 0;
    if (!is_started())
        return 0;
    supply(exports, MTP__NVTX_CORE);
    supply(exports, MTP__NVTX_CORE2);
    return 1;
}

/* 0: the functions of the module do nothing. Slots that are left as they are do nothing either, and return 0. */
int InitializeInjectionNvtxExtension(mtp__nvtx_module *module)
{
#define X(number, name) [number] = (mtp__nvtx_function)name,
    static const mtp__nvtx_function functions[] = {MTP__NVTX_PAYLOAD_SLOT_LIST(X)};
#undef X
    if (module == NULL || module->size < sizeof *module || module->module != MTP__NVTX_PAYLOADS ||
        module->version < MTP__NVTX_PAYLOADS_OLDEST || module->version > MTP__NVTX_PAYLOADS_NEWEST ||
        module->segment_count == 0 || module->segments == NULL || module->segments->slots == NULL ||
        !is_started())
        return 0;
    const mtp__nvtx_segment *segment = module->segments;
    for (size_t i = 0; i < sizeof functions / sizeof *functions && i < segment->count; i++)
        __atomic_store_n(&segment->slots[i], (intptr_t)functions[i], __ATOMIC_RELEASE);
    return 1;
}
