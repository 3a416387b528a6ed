/* base/bisect.h - binary search, written once. */
#ifndef MTP_BASE_BISECT_H
#define MTP_BASE_BISECT_H

/* Narrows [low, high), two variables, until both are the first index for which `before` is false. `before` is an
 * expression in `mid`, true up to some index and false from there on. */
#define MTP__BISECT(low, high, mid, before)                                                                  \
    while ((low) < (high)) {                                                                                 \
        const __typeof__(high) mid = (low) + ((high) - (low)) / 2;                                           \
        if (before)                                                                                          \
            (low) = mid + 1;                                                                                 \
        else                                                                                                 \
            (high) = mid;                                                                                    \
    }
#endif
