/* runtime/kernels/cpu/clones.h - MT__CLONES: compiles a function for several instruction sets; the
 * loader picks one. MT__INLINE: for the functions that it calls. */
#ifndef RUNTIME_KERNELS_CPU_CLONES_H
#define RUNTIME_KERNELS_CPU_CLONES_H
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) &&                                  \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MT__CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MT__CLONES /* resolvers would run before the sanitizers are initialised */
#endif

/* A function compiled for another instruction set inlines only what it must. */
#define MT__INLINE static inline __attribute__((always_inline))
#endif
