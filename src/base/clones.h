// ELMO_CLONES: compile a function for several instruction sets and choose when the program starts. Put
// it on plain loops that the compiler vectorises; elementwise loops give the same bits in every clone.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ELMO_CLONES \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#else
#define ELMO_CLONES
#endif
