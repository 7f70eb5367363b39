/* What the files of the counting tool share. */

#ifndef BERTH_COUNTING_H
#define BERTH_COUNTING_H

#include "pub_tool_basics.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_tooliface.h"

/* How often a segment runs: counted, or as the one before it, less what leaves that by its branch. */
typedef enum { COUNTED, AS_BEFORE, WHERE_TAKEN, WHERE_NOT_TAKEN } Reached;

typedef struct Segment_ {
   ULong count, taken;  /* taken: of the conditional branch at its end */
   const struct Segment_ *before;
   Reached reached;
   struct Segment_ *next;
   const HChar *object; /* NULL: generated at run time */
   Addr first;          /* as in the object's file */
   UInt loads, stores, load_bytes, store_bytes;
   Bool region;         /* begins a parallel region */
   Bool conditional;    /* ends with a conditional branch */
   Bool indirect;       /* ends with an indirect jump or call */
   UInt instructions, room;
   UInt code;           /* bytes of its instructions */
   UChar bytes[];       /* lengths of its instructions, and from ``room`` on their code */
} Segment;

/* The superblock that code is added to. */
typedef struct {
   IRSB *out;
   Segment *segment;      /* NULL: the next instruction or access begins one */
   const Segment *before; /* then: the last one, */
   Reached reached;       /* and how it is left for the next */
   const HChar *object;
   PtrdiffT bias;         /* from the object's file to memory */
   Addr instruction, following;
   UInt left, left_bytes; /* instructions to come */
   ULong fetched;         /* line */
} Block;

/* counts.c */
extern Segment *segments;
extern const HChar *output;
IRExpr *constant(ULong value);
IRExpr *let(IRSB *out, IRType type, IRExpr *value);
IRExpr *combined(IRSB *out, IROp op, IRExpr *a, IRExpr *b);
void call(IRSB *out, const HChar *name, void *function, Int many, IRExpr **arguments,
          IRExpr *guard);
void add_to(IRSB *out, ULong *total, IRExpr *value);
Segment *segment_of(Block *block);
void end_segment(Block *block, Reached reached);
Bool is_misaligned(const IRStmt *stmt);

/* caches.c */
#define LINE_BITS 6
#define L1_SETS 64
#define L1_WAYS 8

extern ULong misses[2][3]; /* of loads and stores; by level: first, second, last */
extern ULong fetch_misses;
extern ULong data_l1[L1_SETS][L1_WAYS], code_l1[L1_SETS][L1_WAYS];
VG_REGPARM(2) void on_load(Addr address, UWord size);
VG_REGPARM(2) void on_store(Addr address, UWord size);
VG_REGPARM(1) void on_fetch(ULong line);

/* branches.c */
extern ULong indirect_missed;
ULong conditional_missed(void);
void forget_branches(void);
/* How the exit is passed. */
Reached before_exit(Block *block, const IRStmt *stmt);
void before_jump(Block *block, IRExpr *target);

/* accesses.c */
void accesses_of(Block *block, const IRTypeEnv *types, const IRStmt *stmt);
void fetch(Block *block, ULong line);

/* results.c */
/* Where this file is there, the counts are written and the process ends. */
extern const HChar *end_file;
void end_where_asked(void);
void forget(void);
void write_results(void);

#endif
