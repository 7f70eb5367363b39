/* A fused multiply-add or a rounding of all lanes of one instruction. Valgrind makes one of each
   lane, and a number between registers of two kinds costs it more than one through memory: what the
   lanes are made of is computed first, then all lanes at once, then what is made of them. */

#include "counting.h"

#define LANES 8

static struct {
   union { ULong f64[LANES]; UInt f32[LANES]; } x, y, z;
} lanes __attribute__((aligned(32)));

#define MADD_LANES(name, lane_type, suffix)                                                        \
   static void name(ULong mode)                                                                    \
   {                                                                                               \
      if (mode)                                                                                    \
         set_rounding(mode);                                                                       \
      __asm__ volatile("vmovap" suffix " %0, %%ymm0\n\tvmovap" suffix " %1, %%ymm1\n\t"            \
                       "vfmadd231p" suffix " %2, %%ymm1, %%ymm0\n\tvmovap" suffix " %%ymm0, %0\n\t"\
                       "vzeroupper"                                                                \
                       : "+m"(lanes.z.lane_type)                                                   \
                       : "m"(lanes.x.lane_type), "m"(lanes.y.lane_type)                            \
                       : "xmm0", "xmm1", "memory");                                                \
      if (mode)                                                                                    \
         set_rounding(Irrm_NEAREST);                                                               \
   }

#define ROUND_LANES(name, lane_type, instruction)                                                  \
   static void name(ULong mode)                                                                    \
   {                                                                                               \
      if (mode)                                                                                    \
         set_rounding(mode);                                                                       \
      __asm__ volatile(instruction " $12, %1, %%ymm0\n\tvmovups %%ymm0, %0\n\tvzeroupper"         \
                       : "=m"(lanes.z.lane_type)                                                   \
                       : "m"(lanes.x.lane_type)                                                    \
                       : "xmm0", "memory");                                                        \
      if (mode)                                                                                    \
         set_rounding(Irrm_NEAREST);                                                               \
   }

MADD_LANES(madd_lanes_f64, f64, "d")
MADD_LANES(madd_lanes_f32, f32, "s")

/* By the mode that is set, without a word of what was lost. */
ROUND_LANES(round_lanes_f64, f64, "vroundpd")
ROUND_LANES(round_lanes_f32, f32, "vroundps")

typedef struct {
   IROp op;
   IRExpr *mode, *of[3]; /* NULL: it has less operands */
} Lane;

static Bool is_lane(const IRStmt *stmt, Lane *lane)
{
   const IRExpr *data;
   if (stmt->tag != Ist_WrTmp)
      return False;
   data = stmt->Ist.WrTmp.data;
   if (data->tag == Iex_Qop) {
      const IRQop *of = data->Iex.Qop.details;
      *lane = (Lane){of->op, of->arg1, {of->arg2, of->arg3, of->arg4}};
      return of->op == Iop_MAddF64 || of->op == Iop_MAddF32;
   }
   if (data->tag == Iex_Binop) {
      *lane = (Lane){data->Iex.Binop.op, data->Iex.Binop.arg1, {data->Iex.Binop.arg2}};
      return lane->op == Iop_RoundF64toInt || lane->op == Iop_RoundF32toInt;
   }
   return False;
}

static Bool is_wide(const Lane *lane)
{
   return lane->op == Iop_MAddF64 || lane->op == Iop_RoundF64toInt;
}

static Bool is_one_of(const IRExpr *expression, const IRTemp *temps, UInt many)
{
   UInt i;
   if (expression->tag == Iex_RdTmp)
      for (i = 0; i < many; i++)
         if (temps[i] == expression->Iex.RdTmp.tmp)
            return True;
   return False;
}

#define MOST_LATE 64

/* The statements from ``first`` to before ``end``, which are of one instruction. Which of them need
   a lane's result is put into ``late``; the number of lanes, or 0 where they are not to be moved. */
static UInt packed_lanes(const IRTypeEnv *types, IRStmt **stmts, Int first, Int end, Bool *late)
{
   IRTemp made[MOST_LATE];
   Int written[MOST_LATE][2];
   UInt many = 0, puts = 0, lanes_seen = 0, k;
   Lane one, lane;
   Int i;
   if (end - first > MOST_LATE)
      return 0;
   for (i = first; i < end; i++) {
      const IRStmt *stmt = stmts[i];
      late[i - first] = False;
      if (stmt->tag == Ist_NoOp)
         continue;
      if (stmt->tag == Ist_Put) {
         late[i - first] = True;
         written[puts][0] = stmt->Ist.Put.offset;
         written[puts++][1] =
            stmt->Ist.Put.offset + sizeofIRType(typeOfIRExpr(types, stmt->Ist.Put.data));
      } else if (is_lane(stmt, &lane)) {
         if (lanes_seen && (lane.op != one.op || !eqIRAtom(lane.mode, one.mode)))
            return 0;
         if (is_one_of(lane.mode, made, many))
            return 0;
         for (k = 0; k < 3 && lane.of[k]; k++)
            if (is_one_of(lane.of[k], made, many))
               return 0;
         one = lane;
         late[i - first] = True;
         made[many++] = stmt->Ist.WrTmp.tmp;
         lanes_seen++;
      } else if (stmt->tag == Ist_WrTmp) {
         const IRExpr *data = stmt->Ist.WrTmp.data;
         if (data->tag == Iex_Get) {
            Int from = data->Iex.Get.offset, to = from + sizeofIRType(data->Iex.Get.ty);
            for (k = 0; k < puts; k++)
               if (from < written[k][1] && written[k][0] < to)
                  return 0;
         } else if (data->tag == Iex_Unop || data->tag == Iex_RdTmp) {
            late[i - first] =
               is_one_of(data->tag == Iex_Unop ? data->Iex.Unop.arg : data, made, many);
         } else if (data->tag == Iex_Binop) {
            late[i - first] = is_one_of(data->Iex.Binop.arg1, made, many) ||
                              is_one_of(data->Iex.Binop.arg2, made, many);
         } else if (data->tag != Iex_Load && data->tag != Iex_Const) {
            return 0;
         }
         if (late[i - first])
            made[many++] = stmt->Ist.WrTmp.tmp;
      } else {
         return 0;
      }
   }
   return lanes_seen && lanes_seen <= (is_wide(&one) ? LANES / 2 : LANES) ? lanes_seen : 0;
}

static void compute_lanes(IRSB *out, IRStmt **stmts, Int first, Int end)
{
   const Addr operands[] = {(Addr)&lanes.x, (Addr)&lanes.y, (Addr)&lanes.z};
   const HChar *name;
   void *function;
   UInt size, at, k;
   IRDirty *dirty;
   Lane lane, one = {0};
   Int i;
   for (i = first, at = 0; i < end; i++) {
      if (!is_lane(stmts[i], &lane))
         continue;
      one = lane;
      size = is_wide(&one) ? 8 : 4;
      for (k = 0; k < 3 && lane.of[k]; k++)
         addStmtToIRSB(out, IRStmt_Store(Iend_LE, constant(operands[k] + at * size), lane.of[k]));
      at++;
   }
   if (one.of[2]) {
      name = is_wide(&one) ? "madd_lanes_f64" : "madd_lanes_f32";
      function = is_wide(&one) ? (void *)madd_lanes_f64 : (void *)madd_lanes_f32;
   } else {
      name = is_wide(&one) ? "round_lanes_f64" : "round_lanes_f32";
      function = is_wide(&one) ? (void *)round_lanes_f64 : (void *)round_lanes_f32;
   }
   dirty = unsafeIRDirty_0_N(1, name, VG_(fnptr_to_fnentry)(function),
                             mkIRExprVec_1(bits_of(out, one.mode)));
   dirty->mFx = Ifx_Modify;
   dirty->mAddr = constant((Addr)&lanes);
   dirty->mSize = sizeof lanes;
   addStmtToIRSB(out, IRStmt_Dirty(dirty));
   size = is_wide(&one) ? 8 : 4;
   for (i = first, at = 0; i < end; i++) {
      if (!is_lane(stmts[i], &lane))
         continue;
      addStmtToIRSB(out, IRStmt_WrTmp(stmts[i]->Ist.WrTmp.tmp,
                                      IRExpr_Load(Iend_LE, is_wide(&one) ? Ity_F64 : Ity_F32,
                                                  constant((Addr)&lanes.z + at * size))));
      at++;
   }
}

/* The instruction whose statements begin at ``first``, where it is one of those; the statement after
   it, or ``first`` where it is none. */
Int packed(Block *block, IRSB *in, Int first)
{
   Bool late[MOST_LATE];
   Int i, end = first;
   Lane lane;
   if (!has_fma())
      return first;
   while (end < in->stmts_used && in->stmts[end]->tag != Ist_IMark)
      end++;
   if (!packed_lanes(in->tyenv, in->stmts, first, end, late))
      return first;
   for (i = first; i < end; i++) {
      if (late[i - first])
         continue;
      accesses_of(block, in->tyenv, in->stmts[i]);
      addStmtToIRSB(block->out, in->stmts[i]);
   }
   compute_lanes(block->out, in->stmts, first, end);
   for (i = first; i < end; i++)
      if (late[i - first] && !is_lane(in->stmts[i], &lane))
         addStmtToIRSB(block->out, in->stmts[i]);
   return end;
}
