/* python/parse.h - conversion of Python arguments to those of one op. */
#ifndef PYTHON_PARSE_H
#define PYTHON_PARSE_H
#include "python/binding.h"

#define PARSE_ARGS 16
#define PARSE_ROOM 96

/* The result of parsing the arguments. Values point into it. */
typedef struct mtpy_parse {
    mt_value values[PARSE_ARGS];
    unsigned count;
    unsigned used;            /* of room */
    unsigned kept;            /* of keep */
    bool requires_grad;       /* requested from a factory function */
    PyObject *out;            /* borrowed: the value of out=, checked; or NULL */
    void *blocks;             /* owned, linked: lists that do not fit into room */
    int64_t room[PARSE_ROOM]; /* short lists */
} mtpy_parse;

/* Why a row does not accept the arguments. */
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
    Py_ssize_t position; /* from 1, as the caller counts; 0: by keyword */
    PyObject *object;    /* borrowed: the value or the keyword */
    Py_ssize_t item;     /* the offending item of a list; else -1 */
} mtpy_mismatch;

/* The arguments of a vectorcall. */
typedef struct mtpy_args {
    PyObject *self;        /* of a method, or NULL */
    PyObject *const *args; /* positional, then the values of names */
    Py_ssize_t count;
    PyObject *names; /* or NULL */
} mtpy_args;

/* 1: p holds the values; 0: the row does not accept them, *m says why; -1: an exception is set. lenient:
 * accept 0-dim tensors as numbers. Call mtpy_parse_end() in any case. */
int mtpy_parse_row(mt_op_id op, const mtpy_args *a, bool lenient, mtpy_parse *p, mtpy_mismatch *m);
void mtpy_parse_end(mtpy_parse *p);
void mtpy_raise_mismatch(mt_op_id op, const mtpy_args *a, const mtpy_mismatch *m);
/* Raises the error that no overload accepts the arguments. */
void mtpy_raise_no_overload(const mt_op_id *ops, unsigned count, const mtpy_args *a);
/* Calls the op with p->out for its results. result: their named tuple type, or NULL. */
PyObject *mtpy_call_out(mt_op_id op, const mtpy_parse *p, PyTypeObject *result);
/* The parameter that a method's `self` becomes; -1: the op is not a method. */
int mtpy_self_param(mt_op_id op);

#endif
