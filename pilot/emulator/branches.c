/* Branches: two-bit counters, chosen by the address and by how the last branches went; an indirect
   jump is expected to go where it went the last time. */

#include "counting.h"

#define HISTORY_BITS 7
#define ADDRESS_BITS 7
#define TARGETS 512

ULong indirect_missed;

/* Places in both tables are in bytes, as the code has them that is added. */
#define PLACE 8

/* Twice a place, the counter's state; above it how often the branch was mispredicted. */
static ULong counters[1 << (HISTORY_BITS + ADDRESS_BITS)];
static UWord history; /* in places */
static Addr targets[TARGETS];

#define STATE (2 * PLACE)
#define MISSED (4 * STATE)

/* What is added to a counter, by its state and whether the branch is taken. */
static const Long changes[] = {0, STATE + MISSED, -STATE, STATE + MISSED,
                               MISSED - STATE, STATE, MISSED - STATE, 0};

static VG_REGPARM(2) void on_indirect(Addr address, Addr target)
{
   Addr *expected = &targets[address % TARGETS];
   indirect_missed += *expected != target;
   *expected = target;
}

/* A conditional branch. */
static void branch(Block *block, IRExpr *taken)
{
   const ULong row = (block->instruction & ((1 << ADDRESS_BITS) - 1)) << HISTORY_BITS;
   IRSB *out = block->out;
   IRExpr *where = constant((ULong)(Addr)&history);
   IRExpr *past = let(out, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, where)), *counter, *now, *change;
   IRExpr *place = combined(out, Iop_Shl64, taken, IRExpr_Const(IRConst_U8(3)));
   Segment *segment = segment_of(block);
   counter = combined(out, Iop_Add64, past, constant((ULong)(Addr)&counters[row]));
   now = let(out, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, counter));
   change = combined(out, Iop_And64, now, constant(MISSED - STATE));
   change = combined(out, Iop_Or64, change, place);
   change = combined(out, Iop_Add64, change, constant((ULong)(Addr)changes));
   change = let(out, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, change));
   addStmtToIRSB(out, IRStmt_Store(Iend_LE, counter, combined(out, Iop_Add64, now, change)));
   past = combined(out, Iop_Shl64, past, IRExpr_Const(IRConst_U8(1)));
   past = combined(out, Iop_Or64, past, place);
   past = combined(out, Iop_And64, past, constant(((1 << HISTORY_BITS) - 1) * PLACE));
   addStmtToIRSB(out, IRStmt_Store(Iend_LE, where, past));
   add_to(out, &segment->taken, taken);
}

Reached before_exit(Block *block, const IRStmt *stmt)
{
   const Addr to = (Addr)stmt->Ist.Exit.dst->Ico.U64;
   const Bool turned = to == block->following; /* the condition was turned round */
   IRExpr *taken;
   if (stmt->Ist.Exit.jk != Ijk_Boring || to == block->instruction)
      return COUNTED;
   segment_of(block)->conditional = True;
   taken = let(block->out, Ity_I64, IRExpr_Unop(Iop_1Uto64, stmt->Ist.Exit.guard));
   if (turned)
      taken = let(block->out, Ity_I64, IRExpr_Binop(Iop_Xor64, taken, constant(1)));
   branch(block, taken);
   return turned ? WHERE_TAKEN : WHERE_NOT_TAKEN;
}

ULong conditional_missed(void)
{
   ULong missed = 0;
   UInt i;
   for (i = 0; i < sizeof counters / sizeof *counters; i++)
      missed += counters[i] / MISSED;
   return missed;
}

void forget_branches(void)
{
   UInt i;
   for (i = 0; i < sizeof counters / sizeof *counters; i++)
      counters[i] %= MISSED;
   indirect_missed = 0;
}

void before_jump(Block *block, IRExpr *target)
{
   segment_of(block)->indirect = True;
   call(block->out, "on_indirect", on_indirect, 2,
        mkIRExprVec_2(constant(block->instruction), target), NULL);
}
