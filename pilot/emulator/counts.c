/* A valgrind tool: in one run the exact counts of each instruction address, of the bytes that are
   loaded and stored, of the misses of three levels of cache and of mispredicted branches.

   Caches are simulated for all of their sets or for a part of them, chosen by two bits that are
   mixed from the address: whole sets at every level, with all that ever reaches them, so that
   nothing is ever cold. Misses are then counted by the set of the first level that they belong to,
   whose spread gives the error of their sum.

   A superblock is cut into segments at its exits. A segment has one counter, added to inline; its
   static list of instructions turns that into how often each address ran, its static sums of bytes
   into what it moved. Where all sets are simulated the first level of cache is checked inline against
   the line that its set used last, and an access to another line calls a function. Where a part of
   them is, the accesses to that part are written down inline, without a jump, and looked at once
   there are many: calls make valgrind save all vector registers. A set is kept in order of use; where
   the line was not in it, two further stages of different size are looked into. One stands for a
   core's second level, the other for a processor's last level.

   Built on this machine against the valgrind that is installed here (see tool.py). */

#include "pub_tool_basics.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

#define LINE_BITS 6
#define L1_WAYS 8
#define L1_SETS 64
#define L2_WAYS 16
#define L2_SETS 1024
#define LLC_WAYS 16
#define LLC_SETS 32768
#define HISTORY_BITS 7
#define ADDRESS_BITS 7
#define TARGETS 512

typedef struct Segment_ {
   ULong count;
   struct Segment_ *next;
   const HChar *object; /* NULL: generated at run time */
   Addr first;          /* as in the object's file */
   UInt loads, stores, load_bytes, store_bytes;
   Bool region;         /* begins a parallel region */
   Bool conditional;    /* ends with a conditional branch */
   UInt instructions, room;
   UInt code;           /* bytes of its instructions */
   UChar bytes[];       /* lengths of its instructions, and from ``room`` on their code */
} Segment;

static Segment *segments;
static Segment **last_segment = &segments;

static ULong misses[2][3][L1_SETS]; /* of loads and stores; by level: first, second, last */

static ULong fetch_misses[L1_SETS];

static struct {
   ULong branches, taken, missed;  /* conditional */
   ULong indirect, indirect_missed;
} totals;

static const HChar *output = "berth.out.%p";
static Bool caches = True, branches = True;

/* Caches: lines by set, the one used last in front. */

static ULong data_l1[L1_SETS][L1_WAYS];
static ULong code_l1[L1_SETS][L1_WAYS];
static ULong second[L2_SETS][L2_WAYS];
static ULong last[LLC_SETS][LLC_WAYS];

/* Bring the line to the front of its set; True where it was not there. */
static inline Bool touch(ULong *set, UInt ways, ULong line)
{
   ULong moved = set[0];
   UInt way;
   if (moved == line)
      return False;
   for (way = 1; way < ways; way++) {
      ULong here = set[way];
      set[way] = moved;
      if (here == line) {
         set[0] = line;
         return False;
      }
      moved = here;
   }
   set[0] = line;
   return True;
}

static UInt beyond_l1(ULong line)
{
   UInt missed = 1;
   if (touch(second[line % L2_SETS], L2_WAYS, line))
      missed |= 2;
   if (touch(last[line % LLC_SETS], LLC_WAYS, line))
      missed |= 4;
   return missed;
}

static inline UInt reach(ULong line)
{
   return touch(data_l1[line % L1_SETS], L1_WAYS, line) ? beyond_l1(line) : 0;
}

/* Which quarter of the sets an address belongs to, at bits 6 and 7. */
#define MIX_SHIFT 3
#define MIX_MASK (3ul << LINE_BITS)
static Long quarters = 4;

static inline Bool chosen(Addr address)
{
   return quarters == 4 || !((address ^ address >> MIX_SHIFT) & MIX_MASK);
}

static inline void access(Addr address, UWord size, ULong counts[3][L1_SETS])
{
   ULong line = address >> LINE_BITS, end = (address + size - 1) >> LINE_BITS;
   UInt missed = reach(line);
   if (end != line && chosen(end << LINE_BITS))
      missed |= reach(end);
   if (missed) {
      UInt set = line % L1_SETS;
      counts[0][set] += 1;
      counts[1][set] += missed >> 1 & 1;
      counts[2][set] += missed >> 2 & 1;
   }
}

static VG_REGPARM(2) void on_load(Addr address, UWord size)
{
   access(address, size, misses[0]);
}

static VG_REGPARM(2) void on_store(Addr address, UWord size)
{
   access(address, size, misses[1]);
}

/* Accesses to simulated sets that were not looked at yet, where only a part of the sets is. */
#define WAITING 256
#define SLACK 256 /* written down without looking whether there is room */
#define STORED 0x100

typedef struct { ULong address, what; } Access; /* what: its size, and STORED */

static Access waiting[WAITING + SLACK];
static Access *end_of_waiting = waiting;

static void look_at_waiting(void)
{
   const Access *here;
   for (here = waiting; here < end_of_waiting; here++)
      access(here->address, here->what & (STORED - 1), misses[here->what >= STORED]);
   end_of_waiting = waiting;
}

static VG_REGPARM(1) void on_fetch(ULong line)
{
   if (touch(code_l1[line % L1_SETS], L1_WAYS, line)) {
      fetch_misses[line % L1_SETS]++;
      beyond_l1(line);
   }
}

/* Branches: two-bit counters, chosen by the address and by how the last branches went; an indirect
   jump is expected to go where it went the last time. */

static UChar counters[1 << (HISTORY_BITS + ADDRESS_BITS)];
static UWord history;
static Addr targets[TARGETS];

/* Of the others, whose counter is full and which went as expected, the caller makes the history. */
static VG_REGPARM(2) void on_branch(UChar *counter, UWord taken)
{
   UChar now = *counter;
   totals.missed += (now >> 1) != taken;
   *counter = taken ? now + (now < 3) : now - (now > 0);
}

static VG_REGPARM(2) void on_indirect(Addr address, Addr target)
{
   Addr *expected = &targets[address % TARGETS];
   totals.indirect++;
   totals.indirect_missed += *expected != target;
   *expected = target;
}

/* What valgrind translates into far more than the program's own instruction: rounding to an integer
   (through the x87), fused multiply-add (in software), conversions that name a rounding mode (which
   set it before and after), and some operations on integers in vectors (lane by lane). Done here
   instead, with the same results. */

static inline ULong rounded(ULong mode, ULong bits, UInt fraction, UInt exponents)
{
   const ULong sign = bits >> (fraction + exponents) & 1, ones = (1ul << exponents) - 1;
   const ULong bias = ones >> 1, exponent = bits >> fraction & ones;
   const ULong all = (1ul << fraction) - 1;
   ULong unit, rest;
   Bool away;
   if (exponent == ones && bits & all)
      return bits | 1ul << (fraction - 1); /* not a number */
   if (exponent >= bias + fraction || !(bits << 1 << (63 - fraction - exponents)))
      return bits;
   if (exponent < bias) {
      away = mode == Irrm_NEAREST ? exponent == bias - 1 && bits & all
                                  : mode == (sign ? Irrm_NegINF : Irrm_PosINF);
      return sign << (fraction + exponents) | (away ? bias << fraction : 0);
   }
   unit = 1ul << (fraction - (exponent - bias));
   rest = bits & (unit - 1);
   bits -= rest;
   if (mode == Irrm_NEAREST) /* the exponent's last bit stands for the one before the fraction */
      away = 2 * rest > unit || (2 * rest == unit && bits & unit);
   else
      away = rest && mode == (sign ? Irrm_NegINF : Irrm_PosINF);
   return away ? bits + unit : bits;
}

static ULong round_f32(ULong mode, ULong bits) { return rounded(mode, bits, 23, 8); }

static ULong round_f64(ULong mode, ULong bits) { return rounded(mode, bits, 52, 11); }

typedef union { ULong bits; double f64; struct { UInt low; } word; } Value;
typedef union { UInt bits; float f32; } Single;

/* Valgrind computes with rounding to nearest; what is left is what the program chose. */
static inline void set_rounding(ULong mode)
{
   UInt status = 0x1f80 | (UInt)(mode & 3) << 13;
   __asm__ volatile("ldmxcsr %0" : : "m"(status));
}

static ULong madd_f64(ULong mode, ULong x, ULong y, ULong z)
{
   Value a = {x}, b = {y}, c = {z};
   if (mode)
      set_rounding(mode);
   __asm__ volatile("vfmadd231sd %2, %1, %0" : "+x"(c.f64) : "x"(a.f64), "x"(b.f64));
   if (mode)
      set_rounding(Irrm_NEAREST);
   return c.bits;
}

static ULong madd_f32(ULong mode, ULong x, ULong y, ULong z)
{
   Single a = {(UInt)x}, b = {(UInt)y}, c = {(UInt)z};
   if (mode)
      set_rounding(mode);
   __asm__ volatile("vfmadd231ss %2, %1, %0" : "+x"(c.f32) : "x"(a.f32), "x"(b.f32));
   if (mode)
      set_rounding(Irrm_NEAREST);
   return c.bits;
}

static ULong to_f32(ULong mode, ULong bits)
{
   Value from = {bits};
   Single to;
   if (mode)
      set_rounding(mode);
   __asm__ volatile("cvtsd2ss %1, %0" : "=x"(to.f32) : "x"(from.f64));
   if (mode)
      set_rounding(Irrm_NEAREST);
   return to.bits;
}

static ULong to_i32(ULong bits)
{
   Value from = {bits};
   UInt to;
   __asm__("cvttsd2si %1, %0" : "=r"(to) : "x"(from.f64));
   return to;
}

static ULong to_i64(ULong bits)
{
   Value from = {bits};
   ULong to;
   __asm__("cvttsd2si %1, %0" : "=r"(to) : "x"(from.f64));
   return to;
}

static Bool has_fma(void)
{
   static Int known = -1;
   if (known < 0) {
      UInt a = 1, b, c = 0, d;
      __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
      known = (c & (1u << 12 | 1u << 27)) == (1u << 12 | 1u << 27);
   }
   return known;
}

/* Instrumentation */

typedef struct {
   IRSB *out;
   Segment *segment;      /* NULL: the next instruction or access begins one */
   const HChar *object;
   PtrdiffT bias;         /* from the object's file to memory */
   Addr instruction, following;
   UInt left, left_bytes; /* instructions to come */
   ULong fetched;         /* line */
   IRExpr *waiting;       /* where the next access is written down; NULL: not known in this block */
   UInt written;          /* accesses since there was room for SLACK of them */
} Block;

static IRExpr *constant(ULong value) { return IRExpr_Const(IRConst_U64(value)); }

static IRExpr *let(IRSB *out, IRType type, IRExpr *value)
{
   IRTemp temp = newIRTemp(out->tyenv, type);
   addStmtToIRSB(out, IRStmt_WrTmp(temp, value));
   return IRExpr_RdTmp(temp);
}

static void call(IRSB *out, const HChar *name, void *function, Int many, IRExpr **arguments,
                 IRExpr *guard)
{
   IRDirty *dirty = unsafeIRDirty_0_N(many, name, VG_(fnptr_to_fnentry)(function), arguments);
   if (guard)
      dirty->guard = guard;
   addStmtToIRSB(out, IRStmt_Dirty(dirty));
}

static IRExpr *bits_of(IRSB *out, IRExpr *value)
{
   switch (typeOfIRExpr(out->tyenv, value)) {
   case Ity_F64:
      return let(out, Ity_I64, IRExpr_Unop(Iop_ReinterpF64asI64, value));
   case Ity_F32:
      value = let(out, Ity_I32, IRExpr_Unop(Iop_ReinterpF32asI32, value));
      return let(out, Ity_I64, IRExpr_Unop(Iop_32Uto64, value));
   case Ity_I32:
      return let(out, Ity_I64, IRExpr_Unop(Iop_32Uto64, value));
   default:
      return value;
   }
}

static IRExpr *value_of(IRSB *out, IRType type, IRExpr *bits)
{
   if (type == Ity_I64)
      return bits;
   if (type == Ity_F64)
      return IRExpr_Unop(Iop_ReinterpI64asF64, bits);
   if (type == Ity_I32)
      return IRExpr_Unop(Iop_64to32, bits);
   bits = let(out, Ity_I32, IRExpr_Unop(Iop_64to32, bits));
   return IRExpr_Unop(Iop_ReinterpI32asF32, bits);
}

static IRExpr *computed(IRSB *out, const HChar *name, void *function, IRExpr **arguments)
{
   IRCallee *callee = mkIRCallee(0, name, VG_(fnptr_to_fnentry)(function));
   return let(out, Ity_I64, IRExpr_CCall(callee, Ity_I64, arguments));
}

static Bool is_zero_mode(const IRExpr *mode)
{
   return mode->tag == Iex_Const && mode->Iex.Const.con->Ico.U32 == Irrm_ZERO;
}

static IRExpr *cheaper_conversion(IRSB *out, IRType type, IROp op, IRExpr *mode, IRExpr *of)
{
   const HChar *name;
   void *function;
   IRExpr **arguments;
   if (op == Iop_RoundF32toInt || op == Iop_RoundF64toInt || op == Iop_F64toF32) {
      name = op == Iop_F64toF32 ? "to_f32" : op == Iop_RoundF32toInt ? "round_f32" : "round_f64";
      function = op == Iop_F64toF32        ? (void *)to_f32
                 : op == Iop_RoundF32toInt ? (void *)round_f32
                                           : (void *)round_f64;
      arguments = mkIRExprVec_2(bits_of(out, mode), bits_of(out, of));
   } else if ((op == Iop_F64toI32S || op == Iop_F64toI64S) && is_zero_mode(mode)) {
      name = op == Iop_F64toI32S ? "to_i32" : "to_i64";
      function = op == Iop_F64toI32S ? (void *)to_i32 : (void *)to_i64;
      arguments = mkIRExprVec_1(bits_of(out, of));
   } else {
      return NULL;
   }
   return value_of(out, type, computed(out, name, function, arguments));
}

/* Of each lane a or b, by the mask of a compare; valgrind calls a function that goes
   through the lanes, processors of today have an instruction. */
static IRExpr *one_of(IRSB *out, IROp greater, IRExpr *a, IRExpr *b, Bool larger)
{
   IRExpr *mask = let(out, Ity_V128, IRExpr_Binop(greater, a, b));
   IRExpr *differs = let(out, Ity_V128, IRExpr_Binop(Iop_XorV128, a, b));
   differs = let(out, Ity_V128, IRExpr_Binop(Iop_AndV128, differs, mask));
   return IRExpr_Binop(Iop_XorV128, larger ? b : a, differs);
}

/* Of lanes without signs: the difference is 0 where b is larger. */
static IRExpr *one_of_16u(IRSB *out, IRExpr *a, IRExpr *b, Bool larger)
{
   IRExpr *more = let(out, Ity_V128, IRExpr_Binop(Iop_QSub16Ux8, a, b));
   return larger ? IRExpr_Binop(Iop_Add16x8, b, more) : IRExpr_Binop(Iop_Sub16x8, a, more);
}

static IRExpr *one_of_32u(IRSB *out, IRExpr *a, IRExpr *b, Bool larger)
{
   IRExpr *ones = let(out, Ity_V128, IRExpr_Const(IRConst_V128(0xffff)));
   IRExpr *sign = let(out, Ity_V128, IRExpr_Binop(Iop_ShlN32x4, ones,
                                                  IRExpr_Const(IRConst_U8(31))));
   a = let(out, Ity_V128, IRExpr_Binop(Iop_XorV128, a, sign));
   b = let(out, Ity_V128, IRExpr_Binop(Iop_XorV128, b, sign));
   a = let(out, Ity_V128, one_of(out, Iop_CmpGT32Sx4, a, b, larger));
   return IRExpr_Binop(Iop_XorV128, a, sign);
}

static IRExpr *cheaper_vector(IRSB *out, IROp op, IRExpr *a, IRExpr *b)
{
   switch (op) {
   case Iop_Max8Sx16: case Iop_Min8Sx16:
      return one_of(out, Iop_CmpGT8Sx16, a, b, op == Iop_Max8Sx16);
   case Iop_Max32Sx4: case Iop_Min32Sx4:
      return one_of(out, Iop_CmpGT32Sx4, a, b, op == Iop_Max32Sx4);
   case Iop_Max32Ux4: case Iop_Min32Ux4:
      return one_of_32u(out, a, b, op == Iop_Max32Ux4);
   case Iop_Max16Ux8: case Iop_Min16Ux8:
      return one_of_16u(out, a, b, op == Iop_Max16Ux8);
   case Iop_SarN8x16: /* to a mask of each lane, which is what blends are made of */
      if (b->tag == Iex_Const && b->Iex.Const.con->Ico.U8 == 7)
         return IRExpr_Binop(Iop_CmpGT8Sx16,
                             let(out, Ity_V128, IRExpr_Const(IRConst_V128(0))), a);
      return NULL;
   default:
      return NULL;
   }
}

/* The operation on half as many lanes. */
static IROp half_of(IROp op)
{
   switch (op) {
   case Iop_Max8Sx32: return Iop_Max8Sx16;
   case Iop_Min8Sx32: return Iop_Min8Sx16;
   case Iop_Max32Sx8: return Iop_Max32Sx4;
   case Iop_Min32Sx8: return Iop_Min32Sx4;
   case Iop_Max32Ux8: return Iop_Max32Ux4;
   case Iop_Min32Ux8: return Iop_Min32Ux4;
   case Iop_Max16Ux16: return Iop_Max16Ux8;
   case Iop_Min16Ux16: return Iop_Min16Ux8;
   default: return Iop_INVALID;
   }
}

static IRExpr *cheaper_halves(IRSB *out, IROp op, IRExpr *a, IRExpr *b)
{
   static const IROp parts[] = {Iop_V256toV128_0, Iop_V256toV128_1};
   IRExpr *made[2];
   UInt i;
   for (i = 0; i < 2; i++) {
      IRExpr *x = let(out, Ity_V128, IRExpr_Unop(parts[i], a));
      IRExpr *y = let(out, Ity_V128, IRExpr_Unop(parts[i], b));
      made[i] = let(out, Ity_V128, cheaper_vector(out, op, x, y));
   }
   return IRExpr_Binop(Iop_V128HLtoV256, made[1], made[0]);
}

/* The signs of eight bytes, as the low bits of a word. */
static IRExpr *signs_of(IRSB *out, IRExpr *bytes)
{
   bytes = let(out, Ity_I64, IRExpr_Binop(Iop_Shr64, bytes, IRExpr_Const(IRConst_U8(7))));
   bytes = let(out, Ity_I64, IRExpr_Binop(Iop_And64, bytes, constant(0x0101010101010101ull)));
   bytes = let(out, Ity_I64, IRExpr_Binop(Iop_Mul64, bytes, constant(0x0102040810204080ull)));
   return let(out, Ity_I64, IRExpr_Binop(Iop_Shr64, bytes, IRExpr_Const(IRConst_U8(56))));
}

static IRExpr *cheaper_signs(IRSB *out, IRExpr *of)
{
   IRExpr *low = signs_of(out, let(out, Ity_I64, IRExpr_Unop(Iop_V128to64, of)));
   IRExpr *high = signs_of(out, let(out, Ity_I64, IRExpr_Unop(Iop_V128HIto64, of)));
   high = let(out, Ity_I64, IRExpr_Binop(Iop_Shl64, high, IRExpr_Const(IRConst_U8(8))));
   return IRExpr_Unop(Iop_64to16, let(out, Ity_I64, IRExpr_Binop(Iop_Or64, high, low)));
}

/* The same value by one of the functions above, or NULL where valgrind's own way is as good. */
static IRExpr *cheaper(IRSB *out, IRType type, const IRExpr *value)
{
   if (value->tag == Iex_Unop && value->Iex.Unop.op == Iop_GetMSBs8x16)
      return cheaper_signs(out, value->Iex.Unop.arg);
   if (value->tag == Iex_Binop && type == Ity_V128)
      return cheaper_vector(out, value->Iex.Binop.op, value->Iex.Binop.arg1,
                            value->Iex.Binop.arg2);
   if (value->tag == Iex_Binop && half_of(value->Iex.Binop.op) != Iop_INVALID)
      return cheaper_halves(out, half_of(value->Iex.Binop.op), value->Iex.Binop.arg1,
                            value->Iex.Binop.arg2);
   if (value->tag == Iex_Binop)
      return cheaper_conversion(out, type, value->Iex.Binop.op, value->Iex.Binop.arg1,
                                value->Iex.Binop.arg2);
   if (value->tag == Iex_Qop && has_fma()) {
      const IRQop *of = value->Iex.Qop.details;
      Bool wide = of->op == Iop_MAddF64;
      if (wide || of->op == Iop_MAddF32)
         return value_of(out, type, computed(out, wide ? "madd_f64" : "madd_f32",
                                             wide ? (void *)madd_f64 : (void *)madd_f32,
                                             mkIRExprVec_4(bits_of(out, of->arg1),
                                                           bits_of(out, of->arg2),
                                                           bits_of(out, of->arg3),
                                                           bits_of(out, of->arg4))));
   }
   return NULL;
}

static void add_to(IRSB *out, ULong *total, IRExpr *value)
{
   IRExpr *here = constant((ULong)(Addr)total);
   IRExpr *sum = let(out, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, here));
   sum = let(out, Ity_I64, IRExpr_Binop(Iop_Add64, sum, value));
   addStmtToIRSB(out, IRStmt_Store(Iend_LE, here, sum));
}

static IRExpr *combined(IRSB *out, IROp op, IRExpr *a, IRExpr *b)
{
   return let(out, Ity_I64, IRExpr_Binop(op, a, b));
}

/* Before the block may be left: keep what was written down. */
static void keep_written(Block *block)
{
   if (block->waiting)
      addStmtToIRSB(block->out, IRStmt_Store(Iend_LE, constant((ULong)(Addr)&end_of_waiting),
                                             block->waiting));
}

static Segment *segment_of(Block *block)
{
   if (!block->segment) {
      Segment *made =
         VG_(malloc)("berth.segment", sizeof(Segment) + block->left + block->left_bytes);
      VG_(memset)(made, 0, sizeof(Segment));
      made->room = block->left;
      made->object = block->object;
      made->first = block->following - block->bias;
      *last_segment = made;
      last_segment = &made->next;
      add_to(block->out, &made->count, constant(1));
      block->segment = made;
   }
   return block->segment;
}

/* Where the next access is written down, with room for it. */
static IRExpr *place_of_access(Block *block)
{
   IRSB *out = block->out;
   IRExpr *here = constant((ULong)(Addr)&end_of_waiting);
   if (block->waiting && block->written == SLACK) {
      keep_written(block);
      block->waiting = NULL;
   }
   if (!block->waiting) {
      IRExpr *end = let(out, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, here));
      IRExpr *limit = constant((ULong)(Addr)&waiting[WAITING]);
      IRExpr *full = let(out, Ity_I1, IRExpr_Binop(Iop_CmpLE64U, limit, end));
      call(out, "look_at_waiting", look_at_waiting, 0, mkIRExprVec_0(), full);
      block->waiting = let(out, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, here));
      block->written = 0;
   }
   block->written++;
   return block->waiting;
}

/* Write an access down; the next one overwrites it where its set is not simulated. */
static void write_down(Block *block, Bool load, IRExpr *address, UInt size, IRExpr *guard)
{
   IRSB *out = block->out;
   IRExpr *here = place_of_access(block), *chosen;
   IRExpr *second = let(out, Ity_I64, IRExpr_Binop(Iop_Add64, here, constant(8)));
   addStmtToIRSB(out, IRStmt_Store(Iend_LE, here, address));
   addStmtToIRSB(out, IRStmt_Store(Iend_LE, second, constant(size | (load ? 0 : STORED))));
   chosen = let(out, Ity_I64,
                IRExpr_Binop(Iop_Shr64, address, IRExpr_Const(IRConst_U8(MIX_SHIFT))));
   chosen = combined(out, Iop_Xor64, chosen, address);
   chosen = combined(out, Iop_And64, chosen, constant(MIX_MASK));
   /* Sixteen, the size of an Access, where no bit is left, else nothing. */
   chosen = combined(out, Iop_Sub64, chosen, constant(1));
   chosen = combined(out, Iop_Shr64, chosen, IRExpr_Const(IRConst_U8(59)));
   chosen = combined(out, Iop_And64, chosen, constant(sizeof(Access)));
   if (guard) {
      IRExpr *happens = let(out, Ity_I64, IRExpr_Unop(Iop_1Sto64, guard));
      chosen = combined(out, Iop_And64, chosen, happens);
   }
   block->waiting = combined(out, Iop_Add64, here, chosen);
}

/* One access to memory; guard: where it happens on a condition only. */
static void access_of(Block *block, Bool load, IRExpr *address, UInt size, IRExpr *guard)
{
   IRSB *out = block->out;
   IRExpr *recent, *end = address, *differs;
   Segment *segment = segment_of(block);
   *(load ? &segment->loads : &segment->stores) += 1;
   *(load ? &segment->load_bytes : &segment->store_bytes) += size;
   if (!caches)
      return;
   if (size > 1 << LINE_BITS)
      size = 1 << LINE_BITS;
   if (quarters != 4) {
      write_down(block, load, address, size, guard);
      return;
   }
   /* A set's lines fill 64 bytes, so an address's bits 6 to 11 are its set's offset, too. */
   recent = let(out, Ity_I64,
                IRExpr_Binop(Iop_And64, address, constant((L1_SETS - 1) << LINE_BITS)));
   recent = let(out, Ity_I64, IRExpr_Binop(Iop_Add64, recent, constant((ULong)(Addr)data_l1)));
   recent = let(out, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, recent));
   if (size > 1)
      end = let(out, Ity_I64, IRExpr_Binop(Iop_Add64, address, constant(size - 1)));
   end = let(out, Ity_I64, IRExpr_Binop(Iop_Shr64, end, IRExpr_Const(IRConst_U8(LINE_BITS))));
   differs = let(out, Ity_I1, IRExpr_Binop(Iop_CmpNE64, recent, end));
   if (guard) {
      IRExpr *one = let(out, Ity_I64, IRExpr_Unop(Iop_1Uto64, differs));
      IRExpr *other = let(out, Ity_I64, IRExpr_Unop(Iop_1Uto64, guard));
      IRExpr *both = let(out, Ity_I64, IRExpr_Binop(Iop_And64, one, other));
      differs = let(out, Ity_I1, IRExpr_Binop(Iop_CmpNE64, both, constant(0)));
   }
   if (load)
      call(out, "on_load", on_load, 2, mkIRExprVec_2(address, constant(size)), differs);
   else
      call(out, "on_store", on_store, 2, mkIRExprVec_2(address, constant(size)), differs);
}

static void fetch(Block *block, ULong line)
{
   IRSB *out = block->out;
   IRExpr *recent, *differs;
   block->fetched = line;
   if (!chosen(line << LINE_BITS))
      return;
   recent = let(out, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64,
                                          constant((ULong)(Addr)&code_l1[line % L1_SETS][0])));
   differs = let(out, Ity_I1, IRExpr_Binop(Iop_CmpNE64, recent, constant(line)));
   call(out, "on_fetch", on_fetch, 1, mkIRExprVec_1(constant(line)), differs);
}

/* Whether a function of the OpenMP runtime begins here that starts a parallel region. */
static Bool starts_region(Addr address)
{
   const HChar *name;
   return VG_(get_fnname_if_entry)(VG_(current_DiEpoch)(), address, &name) &&
          (VG_(strncmp)(name, "GOMP_parallel", 13) == 0 ||
           VG_(strcmp)(name, "__kmpc_fork_call") == 0);
}

static void begin_instruction(Block *block, Addr address, UInt length)
{
   Segment *segment;
   Bool reached = address != block->following; /* by a jump; valgrind follows some */
   if (reached)
      block->segment = NULL;
   block->instruction = block->following = address;
   segment = segment_of(block);
   segment->region |= reached && starts_region(address);
   segment->bytes[segment->instructions++] = (UChar)length;
   VG_(memcpy)(&segment->bytes[segment->room + segment->code], (const void *)address, length);
   segment->code += length;
   block->following = address + length;
   block->left--;
   block->left_bytes -= length;
   if (caches) {
      ULong line = address >> LINE_BITS, end = (address + length - 1) >> LINE_BITS;
      if (line != block->fetched)
         fetch(block, line);
      if (end != line)
         fetch(block, end);
   }
}

static UInt bytes_of(IRType type) { return type == Ity_I1 ? 1 : (UInt)sizeofIRType(type); }

static void dirty_accesses(Block *block, const IRDirty *dirty)
{
   if (dirty->mFx == Ifx_Read || dirty->mFx == Ifx_Modify)
      access_of(block, True, dirty->mAddr, (UInt)dirty->mSize, NULL);
   if (dirty->mFx == Ifx_Write || dirty->mFx == Ifx_Modify)
      access_of(block, False, dirty->mAddr, (UInt)dirty->mSize, NULL);
}

static void accesses_of(Block *block, const IRTypeEnv *types, const IRStmt *stmt)
{
   if (stmt->tag == Ist_WrTmp && stmt->Ist.WrTmp.data->tag == Iex_Load) {
      const IRExpr *load = stmt->Ist.WrTmp.data;
      access_of(block, True, load->Iex.Load.addr, bytes_of(load->Iex.Load.ty), NULL);
   } else if (stmt->tag == Ist_Store) {
      UInt size = bytes_of(typeOfIRExpr(types, stmt->Ist.Store.data));
      access_of(block, False, stmt->Ist.Store.addr, size, NULL);
   } else if (stmt->tag == Ist_LoadG) {
      const IRLoadG *load = stmt->Ist.LoadG.details;
      IRType widened, loaded;
      typeOfIRLoadGOp(load->cvt, &widened, &loaded);
      access_of(block, True, load->addr, bytes_of(loaded), load->guard);
   } else if (stmt->tag == Ist_StoreG) {
      const IRStoreG *store = stmt->Ist.StoreG.details;
      access_of(block, False, store->addr, bytes_of(typeOfIRExpr(types, store->data)),
                store->guard);
   } else if (stmt->tag == Ist_Dirty) {
      dirty_accesses(block, stmt->Ist.Dirty.details);
   } else if (stmt->tag == Ist_CAS) {
      const IRCAS *cas = stmt->Ist.CAS.details;
      UInt size = bytes_of(typeOfIRExpr(types, cas->dataLo)) * (cas->dataHi ? 2 : 1);
      access_of(block, True, cas->addr, size, NULL);
      access_of(block, False, cas->addr, size, NULL);
   } else if (stmt->tag == Ist_LLSC) {
      const IRExpr *stored = stmt->Ist.LLSC.storedata;
      IRType type = stored ? typeOfIRExpr(types, stored) : typeOfIRTemp(types, stmt->Ist.LLSC.result);
      access_of(block, !stored, stmt->Ist.LLSC.addr, bytes_of(type), NULL);
   }
}

/* A conditional branch: its counter is looked at here, and changed elsewhere where it is not full
   in the way that the branch goes. */
static void branch(Block *block, IRExpr *taken)
{
   const ULong row = (block->instruction & ((1 << ADDRESS_BITS) - 1)) << HISTORY_BITS;
   IRSB *out = block->out;
   IRExpr *where = constant((ULong)(Addr)&history), *one = IRExpr_Const(IRConst_U8(1));
   IRExpr *past = let(out, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, where));
   IRExpr *counter = combined(out, Iop_Add64, past, constant((ULong)(Addr)&counters[row]));
   IRExpr *now = let(out, Ity_I8, IRExpr_Load(Iend_LE, Ity_I8, counter));
   IRExpr *full = combined(out, Iop_Shl64, taken, one), *differs;
   full = combined(out, Iop_Or64, full, taken); /* 3 where taken, else 0 */
   now = let(out, Ity_I64, IRExpr_Unop(Iop_8Uto64, now));
   differs = let(out, Ity_I1, IRExpr_Binop(Iop_CmpNE64, now, full));
   call(out, "on_branch", on_branch, 2, mkIRExprVec_2(counter, taken), differs);
   past = combined(out, Iop_Shl64, past, one);
   past = combined(out, Iop_Or64, past, taken);
   past = combined(out, Iop_And64, past, constant((1 << HISTORY_BITS) - 1));
   addStmtToIRSB(out, IRStmt_Store(Iend_LE, where, past));
   add_to(out, &totals.taken, taken);
   segment_of(block)->conditional = True;
}

static void before_exit(Block *block, const IRStmt *stmt)
{
   Addr to = (Addr)stmt->Ist.Exit.dst->Ico.U64;
   if (branches && stmt->Ist.Exit.jk == Ijk_Boring && to != block->instruction) {
      IRExpr *taken = let(block->out, Ity_I64, IRExpr_Unop(Iop_1Uto64, stmt->Ist.Exit.guard));
      if (to == block->following) /* the condition was turned round */
         taken = let(block->out, Ity_I64, IRExpr_Binop(Iop_Xor64, taken, constant(1)));
      branch(block, taken);
   }
}

/* The name, kept: valgrind forgets those of objects that are unmapped. */
static const HChar *kept(const HChar *name)
{
   static HChar **names;
   static UInt many, room;
   UInt i;
   for (i = many; i > 0; i--)
      if (VG_(strcmp)(names[i - 1], name) == 0)
         return names[i - 1];
   if (many == room) {
      room = room ? 2 * room : 64;
      names = VG_(realloc)("berth.names", names, room * sizeof *names);
   }
   names[many] = VG_(strdup)("berth.name", name);
   return names[many++];
}

static IRSB *instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                        const VexGuestExtents *extents, const VexArchInfo *host, IRType guest,
                        IRType word)
{
   Block block = {.out = deepCopyIRSBExceptStmts(in), .fetched = ~0ull};
   DebugInfo *info = VG_(find_DebugInfo)(VG_(current_DiEpoch)(), extents->base[0]);
   Int i, first = 0;

   if (guest != Ity_I64 || word != Ity_I64)
      VG_(tool_panic)("only 64-bit programs can be counted");
   while (first < in->stmts_used && in->stmts[first]->tag != Ist_IMark)
      addStmtToIRSB(block.out, in->stmts[first++]);
   for (i = first; i < in->stmts_used; i++) {
      if (in->stmts[i]->tag == Ist_IMark) {
         block.left++;
         block.left_bytes += in->stmts[i]->Ist.IMark.len;
      }
   }
   if (info) {
      block.object = kept(VG_(DebugInfo_get_filename)(info));
      block.bias = VG_(DebugInfo_get_text_bias)(info);
   }
   for (i = first; i < in->stmts_used; i++) {
      IRStmt *stmt = in->stmts[i];
      if (stmt->tag == Ist_IMark) {
         addStmtToIRSB(block.out, stmt);
         begin_instruction(&block, stmt->Ist.IMark.addr, stmt->Ist.IMark.len);
         continue;
      }
      accesses_of(&block, in->tyenv, stmt);
      if (stmt->tag == Ist_Exit) {
         before_exit(&block, stmt);
         keep_written(&block);
         block.segment = NULL;
      }
      if (stmt->tag == Ist_WrTmp) {
         IRType type = typeOfIRTemp(in->tyenv, stmt->Ist.WrTmp.tmp);
         IRExpr *value = cheaper(block.out, type, stmt->Ist.WrTmp.data);
         if (value)
            stmt = IRStmt_WrTmp(stmt->Ist.WrTmp.tmp, value);
      }
      addStmtToIRSB(block.out, stmt);
   }
   if (branches && in->next->tag == Iex_RdTmp &&
       (in->jumpkind == Ijk_Boring || in->jumpkind == Ijk_Call))
      call(block.out, "on_indirect", on_indirect, 2,
           mkIRExprVec_2(constant(block.instruction), in->next), NULL);
   keep_written(&block);
   return block.out;
}

/* Results: one file for each process and each program that it became. */

static void forget(void)
{
   Segment *segment;
   for (segment = segments; segment; segment = segment->next)
      segment->count = 0;
   VG_(memset)(&totals, 0, sizeof totals);
   VG_(memset)(misses, 0, sizeof misses);
   VG_(memset)(fetch_misses, 0, sizeof fetch_misses);
   end_of_waiting = waiting;
}

static void write_segment(VgFile *file, const Segment *segment)
{
   static const HChar digits[] = "0123456789abcdef";
   UInt i;
   VG_(fprintf)(file, "%llu %lx %u %u %u %u %d ", segment->count, segment->first, segment->loads,
                segment->stores, segment->load_bytes, segment->store_bytes, segment->region);
   for (i = 0; i < segment->instructions; i++)
      VG_(fprintf)(file, "%c", digits[segment->bytes[i] & 15]);
   VG_(fprintf)(file, segment->instructions ? " " : "- -");
   for (i = 0; i < segment->code; i++)
      VG_(fprintf)(file, "%02x", segment->bytes[segment->room + i]);
   VG_(fprintf)(file, "\n");
}

static void write_segments(VgFile *file)
{
   const HChar *object = NULL;
   const Segment *segment;
   for (segment = segments; segment; segment = segment->next) {
      if (!segment->count)
         continue;
      if (segment->object != object) {
         object = segment->object;
         VG_(fprintf)(file, "object %s\n", object ? object : "");
      }
      write_segment(file, segment);
   }
}

/* A new file, numbered after those that this process wrote before it became another program. */
static VgFile *new_file(void)
{
   HChar *name = VG_(expand_file_name)("--counts-file", output);
   HChar *path = VG_(malloc)("berth.path", VG_(strlen)(name) + 16);
   VgFile *file = NULL;
   UInt part;
   for (part = 0; !file && part < 1000; part++) {
      VG_(sprintf)(path, "%s.%u", name, part);
      file = VG_(fopen)(path, VKI_O_CREAT | VKI_O_EXCL | VKI_O_WRONLY, 0600);
   }
   if (!file)
      VG_(message)(Vg_UserMsg, "%s cannot be written\n", path);
   VG_(free)(path);
   VG_(free)(name);
   return file;
}

static void write_by_set(VgFile *file, const HChar *level, const HChar *kind, const ULong *counts)
{
   UInt set;
   VG_(fprintf)(file, "%s_%s", level, kind);
   for (set = 0; set < L1_SETS; set++)
      if (chosen((Addr)set << LINE_BITS))
         VG_(fprintf)(file, " %llu", counts[set]);
   VG_(fprintf)(file, "\n");
}

static void write_misses(VgFile *file)
{
   static const HChar *const kinds[] = {"load", "store"}, *const levels[] = {"l1", "l2", "llc"};
   UInt kind, level;
   for (kind = 0; kind < 2; kind++)
      for (level = 0; level < 3; level++)
         write_by_set(file, levels[level], kinds[kind], misses[kind][level]);
   write_by_set(file, "l1", "fetch", fetch_misses);
}

static void write_results(void)
{
   VgFile *file = new_file();
   const Segment *segment;
   if (!file)
      return;
   look_at_waiting();
   for (segment = segments; segment; segment = segment->next)
      totals.branches += segment->conditional ? segment->count : 0;
   write_misses(file);
   VG_(fprintf)(file, "conditional %llu\ntaken %llu\nconditional_missed %llu\n", totals.branches,
                totals.taken, totals.missed);
   VG_(fprintf)(file, "indirect %llu\nindirect_missed %llu\n", totals.indirect,
                totals.indirect_missed);
   write_segments(file);
   VG_(fprintf)(file, "end\n");
   VG_(fclose)(file);
}

static void before_syscall(ThreadId thread, UInt number, UWord *arguments, UInt many)
{
   if (number == __NR_execve) { /* where it succeeds, this is the last that is heard of us */
      write_results();
      forget();
   }
}

static void after_syscall(ThreadId thread, UInt number, UWord *arguments, UInt many, SysRes result)
{
}

static void after_fork(ThreadId thread) { forget(); }

static void at_end(Int status) { write_results(); }

static Bool option(const HChar *argument)
{
   return VG_STR_CLO(argument, "--counts-file", output) ||
          VG_BOOL_CLO(argument, "--caches", caches) ||
          VG_BINT_CLO(argument, "--quarters", quarters, 1, 4) ||
          VG_BOOL_CLO(argument, "--branches", branches);
}

static void usage(void)
{
   VG_(printf)("    --counts-file=FILE  where to write (%%p: the process)\n"
               "    --caches=yes|no     simulate caches\n"
               "    --quarters=1|4      of the caches' sets that are simulated\n"
               "    --branches=yes|no   predict branches\n");
}

static void no_debug_usage(void) { VG_(printf)("    (none)\n"); }

static void after_options(void)
{
   VG_(atfork)(NULL, NULL, after_fork);
}

static void before_options(void)
{
   VG_(details_name)("Berth");
   VG_(details_version)(NULL);
   VG_(details_description)("exact counts of instructions, cache misses and mispredictions");
   VG_(details_copyright_author)("Berth");
   VG_(details_bug_reports_to)("the authors of Berth");
   VG_(details_avg_translation_sizeB)(500);
   VG_(basic_tool_funcs)(after_options, instrument, at_end);
   VG_(needs_command_line_options)(option, usage, no_debug_usage);
   VG_(needs_syscall_wrapper)(before_syscall, after_syscall);
}

VG_DETERMINE_INTERFACE_VERSION(before_options)
