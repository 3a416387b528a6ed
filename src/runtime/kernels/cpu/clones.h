/* runtime/kernels/cpu/clones.h - MT__CLONES: a function that is compiled for the processor at hand, chosen at load. */
#ifndef RUNTIME_KERNELS_CPU_CLONES_H
#define RUNTIME_KERNELS_CPU_CLONES_H
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) &&                                  \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MT__CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MT__CLONES /* sanitizers run before the resolvers may */
#endif
#endif
