/* Instructions of vectors, executed as they are. Valgrind makes several operations of one on 256 bits,
   and calls a function for each lane of many. Here a run of them becomes one call of code that loads
   the registers which they name from the guest's state, executes them, and stores the registers again.
   Addresses of their operands in memory are computed by valgrind's code, which puts them where that
   code finds them; what else valgrind made of them is used by nothing and vanishes.

   Between two exits of a superblock valgrind leaves out what would be written to a register that is
   written again. So either all instructions that touch vector registers there are executed as they
   are, or none; the others wait in a queue until another instruction could see what they do. */

#include "libvex_guest_amd64.h"
#include "native.h"

#define MOST_QUEUED 64
#define REGISTERS 16
#define REGISTER_BYTES 32
#define CALL_COST 14 /* instructions */

typedef struct {
   Int first, end; /* statements */
   Bool native;
   Bool flush;     /* what is queued is executed before it */
   VectorCode code;
} Step;

static Step *steps;
static UInt steps_many, steps_room, current;

static VectorCode queue[MOST_QUEUED];
static UInt queued;
static ULong addresses[MOST_QUEUED];

#define FIRST_BYTE ((Int)offsetof(VexGuestAMD64State, guest_YMM0))
#define LAST_BYTE (FIRST_BYTE + REGISTERS * REGISTER_BYTES - 1)

static Bool is_vector_state(Int offset) { return offset >= FIRST_BYTE && offset <= LAST_BYTE; }

/* The registers that a statement reads from the guest's state, a bit each. */
static UInt gets(const IRStmt *stmt)
{
   if (stmt->tag != Ist_WrTmp || stmt->Ist.WrTmp.data->tag != Iex_Get ||
       !is_vector_state(stmt->Ist.WrTmp.data->Iex.Get.offset))
      return 0;
   return 1u << (stmt->Ist.WrTmp.data->Iex.Get.offset - FIRST_BYTE) / REGISTER_BYTES;
}

static Bool is_load(const IRStmt *stmt)
{
   return stmt->tag == Ist_WrTmp && stmt->Ist.WrTmp.data->tag == Iex_Load;
}

static Bool is_plain(const IRStmt *stmt)
{
   switch (stmt->tag) {
   case Ist_NoOp: case Ist_AbiHint: case Ist_Store:
      return True;
   case Ist_WrTmp:
      return stmt->Ist.WrTmp.data->tag != Iex_GetI;
   case Ist_Put:
      return is_vector_state(stmt->Ist.Put.offset) ||
             stmt->Ist.Put.offset == offsetof(VexGuestAMD64State, guest_RIP);
   default:
      return is_misaligned(stmt);
   }
}

/* Whether valgrind made of it what is expected: then its operand's address is known. */
static Bool is_as_expected(const IRSB *in, const Step *step)
{
   UInt loads = 0, stores = 0;
   Int i;
   for (i = step->first; i < step->end; i++) {
      if (!is_plain(in->stmts[i]))
         return False;
      loads += is_load(in->stmts[i]);
      stores += in->stmts[i]->tag == Ist_Store;
   }
   return loads == (step->code.memory && !step->code.store) && stores == step->code.store;
}

static Bool has_exit(const IRSB *in, const Step *step)
{
   Int i;
   for (i = step->first; i < step->end; i++)
      if (in->stmts[i]->tag == Ist_Exit && !is_misaligned(in->stmts[i]))
         return True;
   return False;
}

static void find_steps(const IRSB *in, Int first)
{
   Int i;
   steps_many = current = queued = 0;
   for (i = first; i < in->stmts_used; i++) {
      const IRStmt *stmt = in->stmts[i];
      Step *step;
      if (stmt->tag != Ist_IMark)
         continue;
      if (steps_many)
         steps[steps_many - 1].end = i;
      if (steps_many == steps_room) {
         steps_room = steps_room ? 2 * steps_room : 256;
         steps = VG_(realloc)("berth.steps", steps, steps_room * sizeof *steps);
      }
      step = &steps[steps_many++];
      step->first = i + 1;
      step->native = step->flush = False;
      read_vector_code((const UChar *)(Addr)stmt->Ist.IMark.addr, stmt->Ist.IMark.len, &step->code);
   }
   if (steps_many)
      steps[steps_many - 1].end = in->stmts_used;
   for (i = 0; i < (Int)steps_many; i++)
      if (steps[i].code.kind == NATIVE && !is_as_expected(in, &steps[i]))
         steps[i].code.kind = UNKNOWN;
}

/* Whether each register is in the guest's state wherever one of the steps reads it. */
static Bool can_be_native(UInt first, UInt end)
{
   UInt written = 0, i;
   for (i = end; i > first; i--) {
      const VectorCode *code = &steps[i - 1].code;
      if (code->kind == UNKNOWN || (code->kind == FEED && code->writes & written))
         return False;
      written |= code->writes;
   }
   return True;
}

/* What waits in the queue. */
typedef struct {
   UInt many, loads, stores, reads, writes;
} Waiting;

static Bool must_flush(const IRSB *in, const Step *step, const Waiting *now)
{
   const Bool native = step->code.kind == NATIVE;
   Int i;
   if (!now->many)
      return False;
   if (now->many == MOST_QUEUED || step->code.kind == FEED)
      return True;
   if (native && step->code.memory && !step->code.store && now->stores)
      return True;
   for (i = step->first; i < step->end; i++) {
      const IRStmt *stmt = in->stmts[i];
      if (gets(stmt) & now->writes)
         return True;
      if (native)
         continue;
      switch (stmt->tag) {
      case Ist_NoOp: case Ist_AbiHint: case Ist_Put: case Ist_PutI:
         break;
      case Ist_WrTmp:
         if (is_load(stmt) && now->stores)
            return True;
         break;
      case Ist_Store:
         if (now->loads || now->stores)
            return True;
         break;
      case Ist_Exit:
         if (!is_misaligned(stmt))
            return True;
         break;
      default:
         return True;
      }
   }
   return False;
}

static UInt bits(UInt set) { return (UInt)__builtin_popcount(set); }

/* Where the queue of these steps is executed; whether that saves anything. */
static Bool plan(const IRSB *in, UInt first, UInt end)
{
   Waiting now = {0};
   UInt saved = 0, cost = 0, i;
   for (i = first; i < end; i++) {
      Step *step = &steps[i];
      step->flush = must_flush(in, step, &now);
      if (step->flush) {
         cost += CALL_COST + bits(now.reads | now.writes) + bits(now.writes);
         now = (Waiting){0};
      }
      if (step->code.kind != NATIVE)
         continue;
      now.many++;
      now.loads += step->code.memory && !step->code.store;
      now.stores += step->code.store;
      now.reads |= step->code.reads;
      now.writes |= step->code.writes;
      saved += step->code.saved + step->code.memory;
      cost += 2 * step->code.memory;
   }
   cost += now.many ? CALL_COST + bits(now.reads | now.writes) + bits(now.writes) : 0;
   return saved > cost;
}

void plan_native(const IRSB *in, Int first)
{
   UInt start, end, i;
   find_steps(in, first);
   for (start = 0; start < steps_many; start = end) {
      Bool any = False, takes;
      for (end = start; end < steps_many; end++) {
         any |= steps[end].code.kind == NATIVE;
         if (has_exit(in, &steps[end])) {
            end++;
            break;
         }
      }
      takes = any && can_be_native(start, end) && plan(in, start, end);
      for (i = start; i < end; i++) {
         steps[i].native = takes && steps[i].code.kind == NATIVE;
         steps[i].flush &= takes;
      }
   }
}

/* What one call executes. */

static UChar *add_bytes(UChar *to, const void *bytes, UInt many)
{
   VG_(memcpy)(to, bytes, many);
   return to + many;
}

static UChar *add_word(UChar *to, UInt word) { return add_bytes(to, &word, sizeof word); }

/* Move a register from or to the guest's state, at RDI. */
static UChar *add_move(UChar *to, Bool vex, UInt number, Bool store)
{
   if (vex) {
      *to++ = 0xc5;
      *to++ = number < 8 ? 0xfc : 0x7c;
   } else {
      *to++ = number < 8 ? 0x40 : 0x44;
      *to++ = 0x0f;
   }
   *to++ = store ? 0x11 : 0x10;
   *to++ = 0x87 | (number & 7) << 3;
   return add_word(to, (UInt)FIRST_BYTE + number * REGISTER_BYTES);
}

/* Of the queue; the addresses of its operands are at RSI. */
static const UChar *code_of_queue(void)
{
   UChar code[MOST_QUEUED * (sizeof queue[0].code + 7) + 2 * REGISTERS * 8 + 4], *to = code, *made;
   UInt reads = 0, writes = 0, i, operand = 0;
   Bool vex = False;
   for (i = 0; i < queued; i++) {
      reads |= queue[i].reads & ~writes;
      writes |= queue[i].writes;
      vex |= queue[i].vex;
   }
   /* Instructions without VEX leave the higher half of what they write. */
   for (i = 0; i < queued; i++)
      reads |= queue[i].vex ? 0 : queue[i].writes;
   for (i = 0; i < REGISTERS; i++)
      if (reads >> i & 1)
         to = add_move(to, vex, i, False);
   for (i = 0; i < queued; i++) {
      if (queue[i].memory) {
         to = add_bytes(to, "\x48\x8b\x86", 3);
         to = add_word(to, operand++ * (UInt)sizeof(ULong));
      }
      to = add_bytes(to, queue[i].code, queue[i].size);
   }
   for (i = 0; i < REGISTERS; i++)
      if (writes >> i & 1)
         to = add_move(to, vex, i, True);
   if (vex)
      to = add_bytes(to, "\xc5\xf8\x77", 3);
   *to++ = 0xc3;
   tl_assert((SizeT)(to - code) <= sizeof code);
   made = VG_(malloc)("berth.code", (SizeT)(to - code));
   VG_(memcpy)(made, code, (SizeT)(to - code));
   return made;
}

static void run_native(VexGuestAMD64State *state,
                       void (*code)(VexGuestAMD64State *state, const ULong *addresses))
{
   const ULong mode = state->guest_SSEROUND;
   if (mode)
      set_rounding(mode);
   code(state, addresses);
   if (mode)
      set_rounding(Irrm_NEAREST);
}

void flush_native(Block *block)
{
   IRDirty *dirty;
   if (!queued)
      return;
   dirty = unsafeIRDirty_0_N(0, "run_native", VG_(fnptr_to_fnentry)(run_native),
                             mkIRExprVec_2(IRExpr_GSPTR(), constant((Addr)code_of_queue())));
   dirty->mFx = Ifx_Modify; /* whatever they read and write */
   dirty->mAddr = constant((Addr)addresses);
   dirty->mSize = sizeof addresses;
   VG_(memset)(dirty->fxState, 0, sizeof dirty->fxState);
   dirty->nFxState = 2;
   dirty->fxState[0].fx = Ifx_Modify;
   dirty->fxState[0].offset = (UShort)FIRST_BYTE;
   dirty->fxState[0].size = REGISTERS * REGISTER_BYTES;
   dirty->fxState[1].fx = Ifx_Read;
   dirty->fxState[1].offset = offsetof(VexGuestAMD64State, guest_SSEROUND);
   dirty->fxState[1].size = sizeof(ULong);
   addStmtToIRSB(block->out, IRStmt_Dirty(dirty));
   queued = 0;
}

static UInt operands_queued(void)
{
   UInt many = 0, i;
   for (i = 0; i < queued; i++)
      many += queue[i].memory;
   return many;
}

Int native_step(Block *block, const IRSB *in)
{
   const Step *step = &steps[current++];
   Int i;
   if (step->flush)
      flush_native(block);
   if (!step->native)
      return step->first;
   for (i = step->first; i < step->end; i++) {
      IRStmt *stmt = in->stmts[i];
      const IRExpr *address = is_load(stmt)            ? stmt->Ist.WrTmp.data->Iex.Load.addr
                              : stmt->tag == Ist_Store ? stmt->Ist.Store.addr
                                                       : NULL;
      accesses_of(block, in->tyenv, stmt);
      if (address)
         addStmtToIRSB(block->out,
                       IRStmt_Store(Iend_LE, constant((Addr)&addresses[operands_queued()]),
                                    deepCopyIRExpr(address)));
      if (stmt->tag == Ist_WrTmp)
         add_value(block, in->tyenv, stmt);
      else if (stmt->tag == Ist_Put && !is_vector_state(stmt->Ist.Put.offset))
         addStmtToIRSB(block->out, stmt);
   }
   queue[queued++] = step->code;
   return step->end;
}
