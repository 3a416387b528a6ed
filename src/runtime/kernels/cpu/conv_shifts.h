/* kernels/cpu/conv_shifts.h - convolutions of float32 without columns: the image is copied once, with its padding,
 * and each tap of the kernel reads it shifted.
 *
 *     mt__shifts s;
 *     if (mt__shifts_init(&s, &conv, false)) {
 *         mt__shifts_pack(&s, weight, packed);             // once; mt__shifts_packed() floats
 *         mt__shifts_forward(&s, 0, 1, 0, image, packed, bias, out, room); // for each image, group and band
 *     }
 *
 * With strides (y, x) the image is split into up to y * x phase planes, so that a tap reads neighbours for neighbouring
 * outputs. The rows of a plane have the width of the output and of the kernel's reach; outputs are computed in one
 * run over all rows, and those that fall beside the image are dropped. Products with zeros beside the image are
 * computed, too, hence the finite check: an infinity there would become NaN.
 */
#ifndef KERNELS_CPU_CONV_SHIFTS_H
#define KERNELS_CPU_CONV_SHIFTS_H
#include "runtime/ops/conv.h"

typedef struct mt__shifts {
    const mt__conv *c;         /* borrowed */
    int64_t in_each, out_each; /* channels of a group */
    int64_t taps;
    int64_t phases[2];             /* that have taps, in y and x */
    int64_t height, width, plane;  /* of a phase plane; plane: in floats, padded */
    int64_t reach;                 /* the largest shift */
    int64_t rows_in, rows_out;     /* channels per tile of forward's and backward's products */
    int64_t pixels_in, pixels_out; /* vectors of these channels, 0: tiles of neighbours */
    int64_t
        outer; /* vectors of channels of outer products for the gradient of the weights, 0: dot products */
    int64_t bands;        /* of rows of an image, forward */
    bool fresh;           /* zeros beside an image are written with it: a thread has but one */
    int64_t *into_planes; /* owned: the shift of each channel and tap */
    int64_t *into_grads;  /* the same for backward, in the same block: the taps of a phase are together */
    int64_t *of_taps;     /* phase and shift of each tap; in the same block */
} mt__shifts;

typedef enum mt__shifts_pass {
    MT__SHIFTS_FORWARD,
    MT__SHIFTS_INPUT,
    MT__SHIFTS_WEIGHT
} mt__shifts_pass;

/* False: columns are better, or there is no memory. */
bool mt__shifts_init(mt__shifts *s, const mt__conv *c, bool backward);
void mt__shifts_fini(mt__shifts *s);

/* In floats: packed weights of one direction, room that a thread needs, how much of it must be zeros at first. */
int64_t mt__shifts_packed(const mt__shifts *s);
int64_t mt__shifts_room(const mt__shifts *s, mt__shifts_pass pass);
int64_t mt__shifts_zeros(const mt__shifts *s, mt__shifts_pass pass);
void mt__shifts_pack(const mt__shifts *s, const float *weight, float *packed);
void mt__shifts_pack_backward(const mt__shifts *s, const float *weight, float *packed);

/* One image and some consecutive groups, at most mt__shifts_together(). The pointers are those of the first group:
 * image, out, grad: its first channel; bias: its first, or NULL; packed: of all groups. */
int64_t mt__shifts_together(const mt__shifts *s, mt__shifts_pass pass);
void mt__shifts_forward(const mt__shifts *s, int64_t group, int64_t groups, int64_t band, const float *image,
                        const float *packed, const float *bias, float *out, float *room);
void mt__shifts_backward_input(const mt__shifts *s, int64_t group, int64_t groups, const float *grad,
                               const float *packed, float *grad_image, float *room);
/* Adds to sums, mt__shifts_sums() floats of all groups, for some consecutive images, at most mt__shifts_together();
 * of all channels of an image, grad and image point to the group's. */
int64_t mt__shifts_sums(const mt__shifts *s);
void mt__shifts_backward_weight(const mt__shifts *s, int64_t group, int64_t images, const float *grad,
                                const float *image, float *sums, float *room);
/* The gradient of all groups. */
void mt__shifts_finish_weight(const mt__shifts *s, const float *sums, float *grad_weight);

#endif
