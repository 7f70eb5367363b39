/* The code that is added for accesses to memory and for fetches of instructions. */

#include "counting.h"

/* One access to memory; guard: where it happens on a condition only. */
static void access_of(Block *block, Bool load, IRExpr *address, UInt size, IRExpr *guard)
{
   IRSB *out = block->out;
   IRExpr *recent, *end = address, *differs;
   Segment *segment = segment_of(block);
   *(load ? &segment->loads : &segment->stores) += 1;
   *(load ? &segment->load_bytes : &segment->store_bytes) += size;
   if (size > 1 << LINE_BITS)
      size = 1 << LINE_BITS;
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
