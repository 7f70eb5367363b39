/* What valgrind translates into far more than the program's own instruction: rounding to an integer
   (through the x87), fused multiply-add (in software), conversions that name a rounding mode (which
   set it before and after), and some operations on integers in vectors (lane by lane). Done here
   instead, with the same results. */

#include "counting.h"

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

Bool has_fma(void)
{
   static Int known = -1;
   if (known < 0) {
      UInt a = 1, b, c = 0, d;
      __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
      known = (c & (1u << 12 | 1u << 27)) == (1u << 12 | 1u << 27);
   }
   return known;
}

IRExpr *bits_of(IRSB *out, IRExpr *value)
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
IRExpr *cheaper(IRSB *out, IRType type, const IRExpr *value)
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
