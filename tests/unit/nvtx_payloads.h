/* The payload extension of NVTX 3, the program's half: starts as its header does, at its first call.
 *
 * Included by nvtx_calls.c once the core's half is there: init_core(), event, EXPECT.
 */
#define SLOTS 63

static intptr_t slot[SLOTS];

/* 0: refused. The collector is given `count` slots of this version. */
static int start_extension(uint16_t module, uint16_t version, size_t size, size_t count)
{
    mtp__nvtx_extend *extend = NULL;
    mtp__nvtx_segment segment = {0, count, slot};
    mtp__nvtx_module info = {3, (uint16_t)size, module, version, 1, &segment, NULL, NULL};
    memset(slot, 0, sizeof slot);
    init_core();
    *(void **)&extend = dlsym(library, "InitializeInjectionNvtxExtension");
    int used = extend != NULL ? extend(&info) : 0;
    for (size_t i = 0; i < SLOTS; i++)
        if (!used || slot[i] == 0)
            slot[i] = 1;
    return used;
}

static intptr_t function(int which)
{
    if (slot[which] == 0)
        start_extension(MTP__NVTX_PAYLOADS, MTP__NVTX_PAYLOADS_NEWEST, sizeof(mtp__nvtx_module), SLOTS);
    return slot[which];
}

#define CALL_SLOT(which, type, none, ...) (function(which) != 1 ? ((type)slot[which])(__VA_ARGS__) : (none))
#define schema_of(d, s) CALL_SLOT(0, uint64_t (*)(void *, const mtp__nvtx_schema *), 0, d, s)
#define enum_of(d, e) CALL_SLOT(1, uint64_t (*)(void *, const mtp__nvtx_enum *), 0, d, e)
#define push_payload(d, p, n) CALL_SLOT(3, int (*)(void *, const mtp__nvtx_data *, size_t), -2, d, p, n)
#define pop_payload(d, p, n) CALL_SLOT(4, int (*)(void *, const mtp__nvtx_data *, size_t), -2, d, p, n)
#define start_payload(d, p, n) CALL_SLOT(5, uint64_t (*)(void *, const mtp__nvtx_data *, size_t), 0, d, p, n)
#define is_enabled(d) CALL_SLOT(7, uint8_t (*)(void *), 0, d)

static void mark_payload(void *d, const mtp__nvtx_data *p, size_t n)
{
    if (function(2) != 1)
        ((void (*)(void *, const mtp__nvtx_data *, size_t))slot[2])(d, p, n);
}

static void end_payload(void *d, uint64_t id, const mtp__nvtx_data *p, size_t n)
{
    if (function(6) != 1)
        ((void (*)(void *, uint64_t, const mtp__nvtx_data *, size_t))slot[6])(d, id, p, n);
}

static event carrying(event e, const mtp__nvtx_data *p, int n)
{
    e.payload_type = MTP__NVTX_DATA;
    e.reserved = n;
    e.payload.u64 = (uintptr_t)p;
    return e;
}

#define STATIC_SCHEMA (MTP__NVTX_SCHEMA_HAS_KIND | MTP__NVTX_SCHEMA_HAS_ENTRIES | MTP__NVTX_SCHEMA_HAS_SIZE)
#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

static mtp__nvtx_schema schema(const mtp__nvtx_entry *entries, size_t count, size_t size, uint64_t id)
{
    return (mtp__nvtx_schema){STATIC_SCHEMA | (id != 0 ? MTP__NVTX_SCHEMA_HAS_ID : 0),
                              NULL,
                              MTP__NVTX_SCHEMA_STATIC,
                              0,
                              entries,
                              count,
                              size,
                              0,
                              id};
}

/* As NCCL does it: some ranges get their payload when they begin, others when they end. */
static void do_nccl(void)
{
    enum {
        SUM_ID = MTP__NVTX_ID_OWN + 16,
        REDUCE_ID = MTP__NVTX_ID_OWN + 5,
        INIT_ID = MTP__NVTX_ID_OWN
    };
    struct reduce {
        uint64_t communicator;
        size_t bytes;
        int op;
    } reduce = {0x1234567890abcdef, 4096, 1};
    static const mtp__nvtx_entry entries[] = {
        {0, 18, "NCCL communicator ID", NULL, 0, offsetof(struct reduce, communicator), NULL, NULL},
        {0, 22, "Message size [bytes]", NULL, 0, offsetof(struct reduce, bytes), NULL, NULL},
        {0, SUM_ID, "Reduction operation", NULL, 0, offsetof(struct reduce, op), NULL, NULL}};
    static const mtp__nvtx_enumerator ops[] = {{"Sum", 0, 0}, {"Product", 1, 0}};
    void *d = create_domain("NCCL");
    mtp__nvtx_schema s = schema(entries, COUNT_OF(entries), sizeof reduce, REDUCE_ID);
    mtp__nvtx_enum e = {MTP__NVTX_ENUM_HAS_ENTRIES | MTP__NVTX_ENUM_HAS_SIZE | MTP__NVTX_ENUM_HAS_ID,
                        NULL,
                        ops,
                        COUNT_OF(ops),
                        sizeof(int),
                        SUM_ID};
    mtp__nvtx_data data = {REDUCE_ID, sizeof reduce, &reduce};
    event init = registered(register_a(d, "ncclCommInitRankConfig"));
    event all = carrying(registered(register_a(d, "ncclAllReduce")), &data, 1);
    EXPECT(enum_of(d, &e) == SUM_ID && schema_of(d, &s) == REDUCE_ID);
    EXPECT(is_enabled(d) == 1);
    push_a("around");
    for (int i = 0; i < 3; i++) {
        EXPECT(domain_push(d, &init) == 0);
        EXPECT(pop_payload(d, &data, 1) == 0);
        EXPECT(domain_push(d, &all) == 0);
        EXPECT(domain_pop(d) == 0);
        reduce.op++; /* one with a name, and two without */
    }
    EXPECT(pop() == 0);
    EXPECT(pop_payload(d, NULL, 0) < 0);
    push_a("after");
    pop();
}

/* A program that never calls the core by itself. */
static void do_extension(void)
{
    struct all {
        const void *text;
        int8_t small;
        uint16_t word;
        char name[6];
        float real;
        double not_finite;
        const void *address;
        int list[2];
        uint8_t last;
    } all = {"said", -3, 65535, "in \"p", 0.5f, INFINITY, (void *)0x10, {1, 2}, 9};
    static const mtp__nvtx_entry entries[] = {
        {MTP__NVTX_ENTRY_MESSAGE, 75, "text", NULL, 0, 0, NULL, NULL}, /* no offsets: as C places them */
        {0, 11, "small", NULL, 0, 0, NULL, NULL},
        {0, 14, NULL, NULL, 0, 0, NULL, NULL},
        {0, 76, "name", NULL, 6, 0, NULL, NULL},
        {0, 19, "re\"al", NULL, 0, 0, NULL, NULL},
        {0, 20, "not finite", NULL, 0, 0, NULL, NULL},
        {0, 23, "address", NULL, 0, 0, NULL, NULL},
        {MTP__NVTX_ENTRY_FIXED_ARRAY, 5, "list", NULL, 2, 0, NULL, NULL},
        {0, 12, "last", NULL, 0, 0, NULL, NULL},
        {MTP__NVTX_ENTRY_HIDDEN, 12, "hidden", NULL, 0, offsetof(struct all, last), NULL, NULL},
        {0, 12, "last", NULL, 0, offsetof(struct all, small), NULL, NULL}};
    mtp__nvtx_schema s = schema(entries, COUNT_OF(entries), sizeof all, 0);
    uint64_t id = schema_of(NULL, &s), other = schema_of(NULL, &s);
    EXPECT(id >= MTP__NVTX_ID_MADE && other >= MTP__NVTX_ID_MADE && other != id);
    int number = -7;
    mtp__nvtx_data both[] = {{id, SIZE_MAX, &all}, {15, sizeof number, &number}};
    EXPECT(push_payload(NULL, both, 2) == 0);
    all.text = "inner";
    EXPECT(push_payload(NULL, both, 1) == 1);
    EXPECT(pop_payload(NULL, both, 2) == 1);
    EXPECT(pop_payload(NULL, NULL, 0) == 0);
    EXPECT(push_payload(NULL, &both[1], 1) == 0); /* a number, and no text */
    EXPECT(pop_payload(NULL, NULL, 0) == 0);
    all.text = "started";
    uint64_t range = start_payload(NULL, both, 1);
    EXPECT(range != 0);
    end_payload(NULL, range, both, 1);
    all.text = "marked";
    mark_payload(NULL, both, 1);
}

static void push_all(void *d, const mtp__nvtx_data *p, size_t n)
{
    push_payload(d, p, n);
    pop_payload(d, p, n);
    mark_payload(d, p, n);
    end_payload(d, start_payload(d, p, n), p, n);
    event e = carrying(ascii("hostile"), p, (int)n);
    domain_push(d, &e);
    domain_pop(d);
}

static void bad_schemas(void)
{
    static const mtp__nvtx_entry entries[] = {{0, 18, "a", NULL, 0, 0, NULL, NULL}};
    static const mtp__nvtx_enumerator names[] = {{NULL, 0, 0}, {"one", 1, 0}};
    mtp__nvtx_schema s = schema(NULL, 3, 8, 0);
    EXPECT(schema_of(NULL, NULL) == 0 && schema_of(NULL, &s) == 0);
    s = schema(entries, SIZE_MAX, 8, 0);
    EXPECT(schema_of(NULL, &s) == 0);
    s = schema(entries, 1, 8, 0);
    s.set = 0;
    EXPECT(schema_of(NULL, &s) == 0);
    s = schema(entries, 1, 8, 5); /* not an id that programs may choose */
    EXPECT(schema_of(NULL, &s) >= MTP__NVTX_ID_MADE);
    mtp__nvtx_enum e = {MTP__NVTX_ENUM_HAS_ENTRIES, NULL, NULL, 2, 0, 0};
    EXPECT(enum_of(NULL, NULL) == 0 && enum_of(NULL, &e) == 0);
    e.entries = names;
    EXPECT(enum_of(NULL, &e) >= MTP__NVTX_ID_MADE);
    e.count = SIZE_MAX;
    EXPECT(enum_of(NULL, &e) == 0);
}

static void do_hostile(void)
{
    enum {
        LOOP_ID = MTP__NVTX_ID_OWN + 1,
        UNION_ID
    };
    static const uint64_t room[] = {7, 7, 7};
    static char far[400];
    memset(far, 'f', sizeof far - 1);
    mtp__nvtx_entry entries[] = {
        {0, 18, "beyond", NULL, 0, 1 << 20, NULL, NULL},
        {0, 18, "wraps", NULL, 0, UINT64_MAX - 3, NULL, NULL},
        {0, 18, "after it", NULL, 0, 0, NULL, NULL},
        {0, LOOP_ID, "itself", NULL, 0, 8, NULL, NULL},
        {0, 75, "long", NULL, UINT64_MAX, 8, NULL, NULL},
        {0, 75, "pointer", NULL, 0, 8, NULL, NULL},
        {0, 80, "handle", NULL, 0, 8, NULL, NULL},
        {MTP__NVTX_ENTRY_MESSAGE, 80, "no handle", NULL, 0, 8, NULL, NULL},
        {MTP__NVTX_ENTRY_MESSAGE, 76, "beyond", NULL, 30, 8, NULL, NULL},
        {MTP__NVTX_ENTRY_FIXED_ARRAY, 18, "many", NULL, UINT64_MAX / 4, 8, NULL, NULL},
        {0, 18, "after many", NULL, 0, 0, NULL, NULL},
        {MTP__NVTX_ENTRY_POINTER, 18, "elsewhere", NULL, 0, 8, NULL, NULL},
        {0, UINT64_MAX, "unknown", NULL, 0, 8, NULL, NULL},
        {0, 60, "no type", NULL, 0, 8, NULL, NULL},
        {0, 18, far, NULL, 0, 8, NULL, NULL},
        {0, 18, "\xff\n", NULL, 0, 8, NULL, NULL},
        {0, 18, "good", NULL, 0, 16, NULL, NULL}};
    mtp__nvtx_schema s = schema(entries, COUNT_OF(entries), 1 << 30, LOOP_ID);
    void *d = create_domain("h");
    bad_schemas();
    EXPECT(schema_of(d, &s) == LOOP_ID && schema_of(d, &s) == LOOP_ID);
    s.id = UNION_ID;
    s.kind = 3;
    EXPECT(schema_of(d, &s) == UNION_ID);
    mtp__nvtx_data bad[] = {{LOOP_ID, 24, NULL}, {12345, 24, room}, {UNION_ID, 24, room},
                            {18, 4, room},       {18, 0, room},     {75, SIZE_MAX, NULL},
                            {LOOP_ID, 7, room},  {0, 24, room},     {LOOP_ID, 24, room}};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        push_all(d, &bad[i], 1);
    push_all(d, bad, COUNT_OF(bad));
    push_all(d, NULL, 1);
    push_all(d, NULL, SIZE_MAX);
    push_all(d, bad, 0);
    event e = carrying(ascii("hostile"), &bad[8], -1);
    domain_push(d, &e);
    domain_pop(d);
}

/* Versions and modules that the collector does not know, and older ones. */
static void do_versions(void)
{
    static const mtp__nvtx_entry entries[] = {{0, 18, "a", NULL, 0, 0, NULL, NULL}};
    mtp__nvtx_schema s = schema(entries, 1, 8, 0);
    size_t size = sizeof(mtp__nvtx_module);
    mtp__nvtx_extend *extend = NULL;
    EXPECT(start_extension(MTP__NVTX_PAYLOADS, 0x0102, size, SLOTS) == 0 && slot[3] == 1);
    EXPECT(start_extension(MTP__NVTX_PAYLOADS, 0x0201, size, SLOTS) == 0);
    EXPECT(start_extension(1, 0x0102, size, SLOTS) == 0); /* memory */
    EXPECT(start_extension(4, 0x0102, size, SLOTS) == 0); /* counters */
    EXPECT(start_extension(MTP__NVTX_PAYLOADS, MTP__NVTX_PAYLOADS_NEWEST, 16, SLOTS) == 0);
    EXPECT(push_payload(NULL, NULL, 0) == -2 && schema_of(NULL, &s) == 0);
    *(void **)&extend = dlsym(library, "InitializeInjectionNvtxExtension");
    mtp__nvtx_segment none = {0, SLOTS, NULL};
    mtp__nvtx_module info = {
        3, (uint16_t)size, MTP__NVTX_PAYLOADS, MTP__NVTX_PAYLOADS_NEWEST, 0, NULL, NULL, NULL};
    EXPECT(extend(NULL) == 0 && extend(&info) == 0);
    info.segment_count = 1;
    EXPECT(extend(&info) == 0);
    info.segments = &none;
    EXPECT(extend(&info) == 0);
    EXPECT(start_extension(MTP__NVTX_PAYLOADS, MTP__NVTX_PAYLOADS_OLDEST, size, 2) == 1);
    EXPECT(slot[1] != 1 && slot[2] == 1 && schema_of(NULL, &s) >= MTP__NVTX_ID_MADE);
    EXPECT(start_extension(MTP__NVTX_PAYLOADS, MTP__NVTX_PAYLOADS_OLDEST, size + 8, SLOTS) == 1);
    push_a("old");
    EXPECT(pop_payload(NULL, NULL, 0) == 0);
}
