/* Instructions of vectors that are executed as they are. */

#ifndef BERTH_NATIVE_H
#define BERTH_NATIVE_H

#include "counting.h"

typedef enum {
   OTHER,   /* touches no vector register */
   NATIVE,  /* vector registers, and at most one operand in memory */
   FEED,    /* writes vector registers from what is not native */
   DRAIN,   /* reads vector registers, writes none */
   UNKNOWN, /* may touch vector registers in any way */
} Kind;

/* One instruction. */
typedef struct {
   Kind kind;
   UInt reads, writes; /* vector registers, a bit each */
   Bool vex, memory, store;
   UInt saved;         /* about how many instructions */
   UChar code[16];     /* as it is executed: a memory operand is at RAX */
   UInt size;
} VectorCode;

/* vector_code.c */
void read_vector_code(const UChar *code, UInt length, VectorCode *made);

#endif
