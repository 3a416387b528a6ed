/* python/parse.h - Python arguments made into those of one op. */
#ifndef PYTHON_PARSE_H
#define PYTHON_PARSE_H
#include "python/binding.h"

#define PARSE_ARGS 16
#define PARSE_ROOM 96

/* One reading of the arguments. Values point into it. */
typedef struct mtpy_parse {
    mt_value values[PARSE_ARGS];
    unsigned count;
    unsigned used;            /* of room */
    unsigned kept;            /* of keep */
    bool requires_grad;       /* a creation function was asked for it */
    PyObject *out;            /* borrowed: of out=, as the op needs it; or NULL */
    void *blocks;             /* owned: lists that room could not hold, linked */
    int64_t room[PARSE_ROOM]; /* short lists */
} mtpy_parse;

/* Why a row does not take the arguments. */
typedef struct mtpy_mismatch {
    enum {
        FIT_NONE,
        FIT_TYPE,
        FIT_MISSING,
        FIT_UNEXPECTED,
        FIT_TWICE,
        FIT_MANY,
        FIT_OUT
    } why;
    unsigned param;
    Py_ssize_t position; /* as the caller counts, from 1; 0: by keyword */
    PyObject *object;    /* borrowed: the value or the keyword */
    Py_ssize_t item;     /* of a list: the offending one; else -1 */
} mtpy_mismatch;

/* The arguments of a vectorcall. */
typedef struct mtpy_args {
    PyObject *self;        /* of a method, or NULL */
    PyObject *const *args; /* positional, then those of names */
    Py_ssize_t count;
    PyObject *names; /* or NULL */
} mtpy_args;

/* 1: p holds the values; 0: the row does not take them, *m says why; -1: an exception is set.
 * lenient: 0-dim tensors stand for numbers. mtpy_parse_end() after each. */
int mtpy_parse_row(mt_op_id op, const mtpy_args *a, bool lenient, mtpy_parse *p, mtpy_mismatch *m);
void mtpy_parse_end(mtpy_parse *p);
void mtpy_raise_mismatch(mt_op_id op, const mtpy_args *a, const mtpy_mismatch *m);
/* None of the overloads takes the arguments. */
void mtpy_raise_no_overload(const mt_op_id *ops, unsigned count, const mtpy_args *a);
/* Calls the op with p->out for its results. result: the type of these if they have names, or NULL. */
PyObject *mtpy_call_out(mt_op_id op, const mtpy_parse *p, PyTypeObject *result);
/* The parameter that `self` of a method is; -1: the op is no method. */
int mtpy_self_param(mt_op_id op);

#endif
