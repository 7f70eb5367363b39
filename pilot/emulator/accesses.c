/* The code that is added for accesses to memory and for fetches of instructions. */

#include "counting.h"

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

/* By bits 6 to 10 of an address: the size of an Access where it belongs to a simulated set. */
static ULong room_needed[32];

static void fill_room_needed(void)
{
   UInt i;
   for (i = 0; i < 32; i++)
      room_needed[i] = chosen((Addr)i << LINE_BITS) ? sizeof(Access) : 0;
}

static IRExpr *room_for(IRSB *out, IRExpr *address)
{
   IRExpr *place = combined(out, Iop_Shr64, address, IRExpr_Const(IRConst_U8(LINE_BITS - 3)));
   place = combined(out, Iop_And64, place, constant(31 * sizeof(ULong)));
   place = combined(out, Iop_Add64, place, constant((ULong)(Addr)room_needed));
   return let(out, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, place));
}

/* Write an access down, or what stands for several of them; the next one overwrites it where its
   sets are not simulated. */
static void write_down(Block *block, ULong what, IRExpr *address, IRExpr *guard)
{
   IRSB *out = block->out;
   IRExpr *here = place_of_access(block), *room;
   IRExpr *second = let(out, Ity_I64, IRExpr_Binop(Iop_Add64, here, constant(8)));
   addStmtToIRSB(out, IRStmt_Store(Iend_LE, here, address));
   addStmtToIRSB(out, IRStmt_Store(Iend_LE, second, constant(what)));
   room = room_for(out, address);
   if (what & SEVERAL) {
      IRExpr *end = combined(out, Iop_Add64, address, constant((what & (STORED - 1)) - 1));
      room = combined(out, Iop_Or64, room, room_for(out, end));
   }
   if (guard) {
      IRExpr *happens = let(out, Ity_I64, IRExpr_Unop(Iop_1Sto64, guard));
      room = combined(out, Iop_And64, room, happens);
   }
   block->waiting = combined(out, Iop_Add64, here, room);
}

/* Accesses of one superblock to addresses that differ by constants: those that lie within a line's
   length are written down as one, before the first of them. Only the exits of the superblock come
   between them, so what is between two exits is looked at together. */
#define MOST_SEEN 256

typedef struct {
   IRTemp root;
   Long low, high; /* from the root: the first byte and the one after the last */
   UInt stretch;
   Bool load;
} Range;

static Range seen[MOST_SEEN], written[MOST_SEEN];
static UInt seen_many, written_many;
static IRTemp *roots;  /* of each temporary: the one that it is at a constant distance from */
static Long *distances;
static Bool looking;   /* accesses are put into ``seen``, nothing is made of them */

static void set_distance(IRTemp temp, const IRExpr *data)
{
   const IRExpr *a = data, *b = NULL;
   Long sign = 1;
   roots[temp] = temp;
   distances[temp] = 0;
   if (data->tag == Iex_Binop) {
      a = data->Iex.Binop.arg1;
      b = data->Iex.Binop.arg2;
      if (data->Iex.Binop.op == Iop_Sub64)
         sign = -1;
      else if (data->Iex.Binop.op != Iop_Add64)
         return;
      if (sign > 0 && a->tag == Iex_Const) {
         const IRExpr *swap = a;
         a = b;
         b = swap;
      }
      if (b->tag != Iex_Const)
         return;
   }
   if (a->tag != Iex_RdTmp)
      return;
   roots[temp] = roots[a->Iex.RdTmp.tmp];
   distances[temp] = distances[a->Iex.RdTmp.tmp];
   if (b)
      distances[temp] += sign * (Long)b->Iex.Const.con->Ico.U64;
}

static Range range_of(const Block *block, Bool load, const IRExpr *address, UInt size)
{
   Range range = {IRTemp_INVALID, 0, 0, block->stretch, load};
   if (address->tag == Iex_RdTmp) {
      range.root = roots[address->Iex.RdTmp.tmp];
      range.low = distances[address->Iex.RdTmp.tmp];
   } else {
      range.low = (Long)address->Iex.Const.con->Ico.U64;
   }
   range.high = range.low + size;
   return range;
}

/* Whether what was written down touches all of its lines. */
static Bool is_written(const Range *range)
{
   UInt i;
   for (i = 0; i < written_many; i++)
      if (written[i].root == range->root && written[i].low <= range->low &&
          range->high <= written[i].high)
         return True;
   return False;
}

static void write_down_with_others(Block *block, Bool load, IRExpr *address, UInt size)
{
   Range range = range_of(block, load, address, size);
   const Long low = range.low;
   Bool several = False;
   UInt i;
   if (is_written(&range))
      return;
   for (i = 0; i < seen_many; i++) {
      const Range *one = &seen[i];
      Long from = one->low < range.low ? one->low : range.low;
      Long to = one->high > range.high ? one->high : range.high;
      if (one->root == range.root && one->stretch == range.stretch && one->load == load &&
          to - from <= 1 << LINE_BITS && to - from > range.high - range.low) {
         range.low = from;
         range.high = to;
         several = True;
      }
   }
   if (range.low != low)
      address = combined(block->out, Iop_Add64, address, constant((ULong)(range.low - low)));
   if (written_many < MOST_SEEN)
      written[written_many++] = range;
   write_down(block, (ULong)(range.high - range.low) | (load ? 0 : STORED) |
                        (several ? SEVERAL : 0), address, NULL);
}

/* One access to memory; guard: where it happens on a condition only. */
static void access_of(Block *block, Bool load, IRExpr *address, UInt size, IRExpr *guard)
{
   IRSB *out = block->out;
   IRExpr *recent, *end = address, *differs;
   Segment *segment;
   if (looking) {
      if (!guard && size <= 1 << LINE_BITS && seen_many < MOST_SEEN)
         seen[seen_many++] = range_of(block, load, address, size);
      return;
   }
   segment = segment_of(block);
   *(load ? &segment->loads : &segment->stores) += 1;
   *(load ? &segment->load_bytes : &segment->store_bytes) += size;
   if (!caches)
      return;
   if (size > 1 << LINE_BITS)
      size = 1 << LINE_BITS;
   if (quarters != 4) {
      if (guard)
         write_down(block, size | (load ? 0 : STORED), address, guard);
      else
         write_down_with_others(block, load, address, size);
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

/* Of all sets, always: a program's code lies in few of them, which a part would not stand for. */
void fetch(Block *block, ULong line)
{
   IRSB *out = block->out;
   IRExpr *recent, *differs;
   block->fetched = line;
   recent = let(out, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64,
                                          constant((ULong)(Addr)&code_l1[line % L1_SETS][0])));
   differs = let(out, Ity_I1, IRExpr_Binop(Iop_CmpNE64, recent, constant(line)));
   call(out, "on_fetch", on_fetch, 1, mkIRExprVec_1(constant(line)), differs);
}

static UInt bytes_of(IRType type) { return type == Ity_I1 ? 1 : (UInt)sizeofIRType(type); }

static void dirty_accesses(Block *block, const IRDirty *dirty)
{
   if (dirty->mFx == Ifx_Read || dirty->mFx == Ifx_Modify)
      access_of(block, True, dirty->mAddr, (UInt)dirty->mSize, NULL);
   if (dirty->mFx == Ifx_Write || dirty->mFx == Ifx_Modify)
      access_of(block, False, dirty->mAddr, (UInt)dirty->mSize, NULL);
}

void accesses_of(Block *block, const IRTypeEnv *types, const IRStmt *stmt)
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

/* What all accesses of the superblock are, before the first is looked at. */
void look_ahead(Block *block, IRSB *in)
{
   const UInt many = (UInt)in->tyenv->types_used;
   Int i;
   if (!room_needed[0])
      fill_room_needed();
   seen_many = written_many = 0;
   roots = VG_(malloc)("berth.roots", (many + 1) * sizeof *roots);
   distances = VG_(malloc)("berth.distances", (many + 1) * sizeof *distances);
   looking = True;
   for (i = 0; i < in->stmts_used; i++) {
      const IRStmt *stmt = in->stmts[i];
      if (stmt->tag == Ist_WrTmp)
         set_distance(stmt->Ist.WrTmp.tmp, stmt->Ist.WrTmp.data);
      accesses_of(block, in->tyenv, stmt);
      block->stretch += stmt->tag == Ist_Exit && !is_misaligned(stmt);
   }
   looking = False;
   block->stretch = 0;
}

/* After an exit. */
void next_stretch(Block *block)
{
   block->stretch++;
   written_many = 0;
}

void forget_accesses(void)
{
   VG_(free)(roots);
   VG_(free)(distances);
   roots = NULL;
   distances = NULL;
}
