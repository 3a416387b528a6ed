/* present/parquet/thrift.h - Thrift's compact protocol, as far as Parquet needs it. Fields of a struct are written in
 * order of their numbers; a struct ends with mtp__thrift_end(). */
#ifndef MTP_PRESENT_PARQUET_THRIFT_H
#define MTP_PRESENT_PARQUET_THRIFT_H
#include <string.h>
#include "present/parquet/parquet.h"

enum { /* types */
    MTP__THRIFT_TRUE = 1,
    MTP__THRIFT_FALSE = 2,
    MTP__THRIFT_BYTE = 3,
    MTP__THRIFT_I16 = 4,
    MTP__THRIFT_I32 = 5,
    MTP__THRIFT_I64 = 6,
    MTP__THRIFT_BINARY = 8,
    MTP__THRIFT_LIST = 9,
    MTP__THRIFT_STRUCT = 12
};

typedef struct mtp__thrift { /* one struct; nested ones have their own */
    mtp__octets *to;
    unsigned field; /* the last one */
} mtp__thrift;

static inline void mtp__thrift_field(mtp__thrift *t, unsigned field, unsigned type)
{
    uint8_t head = (uint8_t)((field - t->field) << 4 | type); /* never more than 15 apart */
    t->field = field;
    mtp__octets_put(t->to, &head, 1);
}

static inline void mtp__thrift_end(mtp__thrift *t)
{
    mtp__octets_put(t->to, "", 1);
}

static inline void mtp__thrift_int(mtp__thrift *t, unsigned field, unsigned type, int64_t value)
{
    mtp__thrift_field(t, field, type);
    mtp__octets_varint(t->to, mtp__zigzag(value));
}

static inline void mtp__thrift_bool(mtp__thrift *t, unsigned field, bool value)
{
    mtp__thrift_field(t, field, value ? MTP__THRIFT_TRUE : MTP__THRIFT_FALSE);
}

static inline void mtp__thrift_binary(mtp__thrift *t, unsigned field, const void *bytes, size_t length)
{
    mtp__thrift_field(t, field, MTP__THRIFT_BINARY);
    mtp__octets_varint(t->to, length);
    mtp__octets_put(t->to, bytes, length);
}

static inline void mtp__thrift_text(mtp__thrift *t, unsigned field, const char *text)
{
    mtp__thrift_binary(t, field, text, strlen(text));
}

static inline void mtp__thrift_list(mtp__thrift *t, unsigned field, unsigned type, size_t count)
{
    uint8_t head = (uint8_t)((count < 15 ? count : 15) << 4 | type);
    mtp__thrift_field(t, field, MTP__THRIFT_LIST);
    mtp__octets_put(t->to, &head, 1);
    if (count >= 15)
        mtp__octets_varint(t->to, count);
}

static inline mtp__thrift mtp__thrift_struct(mtp__thrift *t, unsigned field)
{
    mtp__thrift_field(t, field, MTP__THRIFT_STRUCT);
    return (mtp__thrift){t->to, 0};
}

static inline void mtp__thrift_empty(mtp__thrift *t, unsigned field) /* a struct without fields */
{
    mtp__thrift inner = mtp__thrift_struct(t, field);
    mtp__thrift_end(&inner);
}
#endif
