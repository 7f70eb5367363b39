/* Which instructions of vectors can be executed as they are, and how they are written for that:
   with the memory operand, if any, at the address in RAX. */

#include "native.h"

typedef struct {
   UChar prefix;          /* 0x66, 0xf2, 0xf3; 0: none */
   UChar map, opcode;     /* map 1: 0F, 2: 0F 38, 3: 0F 3A */
   UChar modrm;
   Bool vex, wide;        /* wide: 256 bits */
   Bool odd;              /* prefixes that compilers do not write */
   Bool second_wide;      /* REX.W */
   UInt reg_high, rm_high, other; /* bits that extend modrm's fields; VEX's second source */
   const UChar *operand, *immediate;
} Parts;

static UInt immediate_size(const Parts *parts)
{
   if (parts->map == 3)
      return 1;
   return parts->map == 1 && ((parts->opcode >= 0x70 && parts->opcode <= 0x73) ||
                              parts->opcode == 0xc2 || (parts->opcode >= 0xc4 && parts->opcode <= 0xc6));
}

/* False: not an instruction with ModRM in one of the three maps. */
static Bool parse(const UChar *code, UInt length, Parts *parts)
{
   static const UChar prefixes[] = {0, 0x66, 0xf3, 0xf2};
   const UChar *at = code, *end = code + length;
   UInt displacement;
   VG_(memset)(parts, 0, sizeof *parts);
   for (; at < end; at++) {
      if (*at == 0x66 || *at == 0xf2 || *at == 0xf3) {
         parts->odd |= parts->prefix != 0;
         parts->prefix = *at;
      } else if (*at == 0x67) {
         parts->odd = True;
      } else if (*at != 0x2e && *at != 0x36 && *at != 0x3e && *at != 0x26 && *at != 0x64 &&
                 *at != 0x65) {
         break;
      }
   }
   if (end - at < 3)
      return False;
   if (*at == 0xc4 || *at == 0xc5) {
      const UChar last = *at == 0xc4 ? at[2] : at[1];
      parts->vex = True;
      parts->map = *at == 0xc4 ? at[1] & 0x1f : 1;
      parts->reg_high = (at[1] & 0x80) ? 0 : 8;
      parts->rm_high = *at == 0xc4 && !(at[1] & 0x20) ? 8 : 0;
      parts->second_wide = *at == 0xc4 && (last & 0x80);
      parts->other = ~last >> 3 & 15;
      parts->wide = last >> 2 & 1;
      parts->prefix = prefixes[last & 3];
      at += *at == 0xc4 ? 3 : 2;
   } else {
      if (*at >= 0x40 && *at <= 0x4f) {
         parts->reg_high = *at & 4 ? 8 : 0;
         parts->rm_high = *at & 1 ? 8 : 0;
         parts->second_wide = *at >> 3 & 1;
         at++;
      }
      if (*at++ != 0x0f)
         return False;
      parts->map = *at == 0x38 ? 2 : *at == 0x3a ? 3 : 1;
      at += parts->map != 1;
   }
   if (at >= end)
      return False;
   parts->opcode = *at++;
   if (parts->map == 1 && parts->opcode == 0x77)
      return True;
   if (at >= end)
      return False;
   parts->modrm = *at;
   parts->operand = at++;
   displacement = 0;
   if (parts->modrm < 0xc0) {
      const UInt mode = parts->modrm >> 6, rm = parts->modrm & 7;
      const Bool sib = rm == 4;
      if (sib && at >= end)
         return False;
      displacement = mode == 1 ? 1 : mode == 2 || rm == 5 || (sib && (*at & 7) == 5) ? 4 : 0;
      at += sib + displacement;
   }
   parts->immediate = at;
   return True;
}

/* Of the first map; the prefix tells vectors from the registers of MMX. */
static Kind kind_in_first(const Parts *parts)
{
   const UChar prefix = parts->prefix;
   const Bool is_66 = prefix == 0x66, scalar = prefix == 0xf2 || prefix == 0xf3;
   switch (parts->opcode) {
   case 0x10 ... 0x17: case 0x28: case 0x29: case 0x2b: case 0x51 ... 0x5f: case 0xc2: case 0xc6:
      return NATIVE;
   case 0x2a:
      return scalar ? FEED : UNKNOWN;
   case 0x2c: case 0x2d:
      return scalar ? DRAIN : UNKNOWN;
   case 0x2e: case 0x2f: case 0x50:
      return DRAIN;
   case 0x60 ... 0x6d: case 0x71 ... 0x76: case 0xd1 ... 0xd6: case 0xd8 ... 0xe5:
   case 0xe7 ... 0xef: case 0xf1 ... 0xf6: case 0xf8 ... 0xfe:
      return is_66 ? NATIVE : UNKNOWN;
   case 0x6e: case 0xc4:
      return is_66 ? FEED : UNKNOWN;
   case 0x6f: case 0x70: case 0x7c: case 0x7d: case 0x7f: case 0xd0: case 0xe6: case 0xf0:
      return prefix ? NATIVE : UNKNOWN;
   case 0x77:
      return parts->vex ? FEED : UNKNOWN;
   case 0x7e:
      return prefix == 0xf3 ? NATIVE : is_66 ? DRAIN : UNKNOWN;
   case 0xc5: case 0xd7:
      return is_66 ? DRAIN : UNKNOWN;
   case 0xf7:
      return UNKNOWN;
   default:
      return parts->vex && parts->opcode != 0xae ? UNKNOWN : OTHER;
   }
}

static Kind kind_in_second(const Parts *parts)
{
   const UChar opcode = parts->opcode;
   if (opcode >= 0xf0)
      return OTHER;
   if (parts->prefix != 0x66)
      return UNKNOWN;
   switch (opcode) {
   case 0x00 ... 0x0b: case 0x1c ... 0x1e: case 0x20 ... 0x25: case 0x28 ... 0x2b:
   case 0x30 ... 0x35: case 0x37 ... 0x41:
      return NATIVE;
   case 0x10: case 0x14: case 0x15:
      return parts->vex ? UNKNOWN : NATIVE;
   case 0x0c: case 0x0d: case 0x16: case 0x18 ... 0x1a: case 0x36: case 0x45 ... 0x47:
   case 0x58 ... 0x5a: case 0x78: case 0x79: case 0x96 ... 0x9f: case 0xa6 ... 0xaf:
   case 0xb6 ... 0xbf:
      return parts->vex ? NATIVE : UNKNOWN;
   case 0x0e: case 0x0f:
      return parts->vex ? DRAIN : UNKNOWN;
   case 0x17:
      return DRAIN;
   default:
      return UNKNOWN;
   }
}

static Kind kind_in_third(const Parts *parts)
{
   if (parts->opcode == 0xf0)
      return OTHER;
   if (parts->prefix != 0x66)
      return UNKNOWN;
   switch (parts->opcode) {
   case 0x08 ... 0x0f: case 0x21: case 0x40 ... 0x42:
      return NATIVE;
   case 0x00 ... 0x02: case 0x04 ... 0x06: case 0x18: case 0x19: case 0x38: case 0x39: case 0x46:
   case 0x4a ... 0x4c:
      return parts->vex ? NATIVE : UNKNOWN;
   case 0x14 ... 0x17:
      return DRAIN;
   case 0x20: case 0x22:
      return FEED;
   default:
      return UNKNOWN;
   }
}

static Bool is_fused(const Parts *parts)
{
   return parts->map == 2 && parts->opcode >= 0x96 && parts->opcode <= 0xbf;
}

/* Whether the operand of ModRM's rm is what is written. */
static Bool writes_rm(const Parts *parts)
{
   if (parts->map == 3)
      return parts->opcode == 0x19 || parts->opcode == 0x39;
   if (parts->map != 1)
      return False;
   switch (parts->opcode) {
   case 0x11: case 0x13: case 0x17: case 0x29: case 0x2b: case 0x7f: case 0xd6: case 0xe7:
      return True;
   default:
      return False;
   }
}

static void registers_of(const Parts *parts, VectorCode *made)
{
   const UInt reg = 1u << ((parts->modrm >> 3 & 7) + parts->reg_high);
   const UInt rm = made->memory ? 0 : 1u << ((parts->modrm & 7) + parts->rm_high);
   const UInt other = parts->vex ? 1u << parts->other : 0;
   if (parts->map == 1 && parts->opcode >= 0x71 && parts->opcode <= 0x73) {
      made->writes = parts->vex ? other : rm; /* by a constant; the field of reg names which */
      made->reads = rm;
      return;
   }
   made->store = made->memory && writes_rm(parts);
   made->writes = writes_rm(parts) ? rm : reg;
   made->reads = rm | other;
   if (!parts->vex || is_fused(parts) || writes_rm(parts))
      made->reads |= reg;
   if (!parts->vex)
      made->reads |= made->writes;
   if (!parts->vex && parts->map == 2 && (parts->opcode == 0x10 || (parts->opcode & 0xfe) == 0x14))
      made->reads |= 1; /* which lanes to take: always in the first register */
   if (parts->vex && parts->map == 3 && parts->opcode >= 0x4a && parts->opcode <= 0x4c)
      made->reads |= 1u << (parts->immediate[0] >> 4);
}

/* About how many instructions valgrind makes of it, more than one. */
static UInt saved_by(const Parts *parts)
{
   const Bool scalar = parts->prefix == 0xf2 || parts->prefix == 0xf3;
   if (is_fused(parts) || (parts->map == 3 && parts->opcode >= 0x08 && parts->opcode <= 0x0b))
      return 20;
   if (parts->wide)
      return 6;
   if (parts->map != 1)
      return 5;
   if (parts->opcode == 0x5a || parts->opcode == 0x5b || parts->opcode == 0xe6)
      return 5;
   return scalar ? 1 : 2;
}

/* The same with its memory operand at RAX, where it has one. */
static void write_code(const Parts *parts, VectorCode *made)
{
   static const UChar codes[] = {0, 0x0f, 0x38, 0x3a};
   UChar *to = made->code;
   const UInt reg = parts->modrm >> 3 & 7;
   const UChar prefix = parts->prefix == 0x66 ? 1 : parts->prefix == 0xf3 ? 2 : parts->prefix ? 3 : 0;
   const Bool high = !made->memory && parts->rm_high;
   if (parts->vex) {
      *to++ = 0xc4;
      *to++ = (parts->reg_high ? 0 : 0x80) | 0x40 | (high ? 0 : 0x20) | parts->map;
      *to++ = (parts->second_wide ? 0x80 : 0) | (~parts->other & 15) << 3 | parts->wide << 2 | prefix;
   } else {
      if (parts->prefix)
         *to++ = parts->prefix;
      *to++ = 0x40 | (parts->second_wide ? 8 : 0) | (parts->reg_high ? 4 : 0) | high;
      *to++ = 0x0f;
      if (parts->map != 1)
         *to++ = codes[parts->map];
   }
   *to++ = parts->opcode;
   *to++ = made->memory ? reg << 3 : parts->modrm;
   if (immediate_size(parts))
      *to++ = parts->immediate[0];
   made->size = (UInt)(to - made->code);
}

void read_vector_code(const UChar *code, UInt length, VectorCode *made)
{
   Parts parts;
   VG_(memset)(made, 0, sizeof *made);
   if (!parse(code, length, &parts))
      return;
   made->kind = parts.map == 1   ? kind_in_first(&parts)
                : parts.map == 2 ? kind_in_second(&parts)
                : parts.map == 3 ? kind_in_third(&parts)
                                 : UNKNOWN;
   if (parts.odd && made->kind != OTHER)
      made->kind = UNKNOWN;
   made->vex = parts.vex;
   made->memory = parts.modrm < 0xc0;
   if (parts.map == 1 && parts.opcode == 0x77)
      made->writes = 0xffff;
   else if (made->kind == FEED)
      made->writes = 1u << ((parts.modrm >> 3 & 7) + parts.reg_high);
   if (made->kind != NATIVE)
      return;
   if (parts.immediate + immediate_size(&parts) != code + length) {
      made->kind = UNKNOWN;
      return;
   }
   registers_of(&parts, made);
   made->saved = saved_by(&parts);
   write_code(&parts, made);
}
