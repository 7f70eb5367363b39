/* A valgrind tool: in one run the exact counts of each instruction address, of the bytes that are
   loaded and stored, of the misses of three levels of cache and of mispredicted branches.

   A superblock is cut into segments at its exits. A segment has one counter, added to inline; its
   static list of instructions turns that into how often each address ran, its static sums of bytes
   into what it moved. The first level of cache is checked inline against the line that its set used
   last; an access to another line calls a function.

   Built on this machine against the valgrind that is installed here (see tool.py). */

#include "counting.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_options.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

Segment *segments;
static Segment **last_segment = &segments;

const HChar *output = "berth.out.%p";

IRExpr *constant(ULong value) { return IRExpr_Const(IRConst_U64(value)); }

IRExpr *let(IRSB *out, IRType type, IRExpr *value)
{
   IRTemp temp = newIRTemp(out->tyenv, type);
   addStmtToIRSB(out, IRStmt_WrTmp(temp, value));
   return IRExpr_RdTmp(temp);
}

void call(IRSB *out, const HChar *name, void *function, Int many, IRExpr **arguments,
          IRExpr *guard)
{
   IRDirty *dirty = unsafeIRDirty_0_N(many, name, VG_(fnptr_to_fnentry)(function), arguments);
   if (guard)
      dirty->guard = guard;
   addStmtToIRSB(out, IRStmt_Dirty(dirty));
}

void add_to(IRSB *out, ULong *total, IRExpr *value)
{
   IRExpr *here = constant((ULong)(Addr)total);
   IRExpr *sum = let(out, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, here));
   sum = let(out, Ity_I64, IRExpr_Binop(Iop_Add64, sum, value));
   addStmtToIRSB(out, IRStmt_Store(Iend_LE, here, sum));
}

IRExpr *combined(IRSB *out, IROp op, IRExpr *a, IRExpr *b)
{
   return let(out, Ity_I64, IRExpr_Binop(op, a, b));
}

Segment *segment_of(Block *block)
{
   if (!block->segment) {
      Segment *made =
         VG_(malloc)("berth.segment", sizeof(Segment) + block->left + block->left_bytes);
      VG_(memset)(made, 0, sizeof(Segment));
      made->room = block->left;
      made->object = block->object;
      made->first = block->following - block->bias;
      made->before = block->before;
      made->reached = block->reached;
      *last_segment = made;
      last_segment = &made->next;
      if (made->reached == COUNTED)
         add_to(block->out, &made->count, constant(1));
      block->segment = made;
   }
   return block->segment;
}

void end_segment(Block *block, Reached reached)
{
   block->before = block->segment;
   block->reached = block->segment ? reached : COUNTED;
   block->segment = NULL;
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
   ULong line, end;
   if (reached && block->segment)
      end_segment(block, AS_BEFORE);
   block->instruction = block->following = address;
   segment = segment_of(block);
   segment->region |= reached && starts_region(address);
   segment->bytes[segment->instructions++] = (UChar)length;
   VG_(memcpy)(&segment->bytes[segment->room + segment->code], (const void *)address, length);
   segment->code += length;
   block->following = address + length;
   block->left--;
   block->left_bytes -= length;
   line = address >> LINE_BITS;
   end = (address + length - 1) >> LINE_BITS;
   if (line != block->fetched)
      fetch(block, line);
   if (end != line)
      fetch(block, end);
}

/* Exits for operands that are not aligned as they must be: programs have none. They are left out. */
Bool is_misaligned(const IRStmt *stmt)
{
   return stmt->tag == Ist_Exit && stmt->Ist.Exit.jk == Ijk_SigSEGV;
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
      if (is_misaligned(stmt))
         continue;
      if (stmt->tag == Ist_IMark) {
         addStmtToIRSB(block.out, stmt);
         begin_instruction(&block, stmt->Ist.IMark.addr, stmt->Ist.IMark.len);
         continue;
      }
      accesses_of(&block, in->tyenv, stmt);
      if (stmt->tag == Ist_Exit) {
         Reached reached = before_exit(&block, stmt);
         end_segment(&block, reached);
      }
      addStmtToIRSB(block.out, stmt);
   }
   if (in->next->tag == Iex_RdTmp &&
       (in->jumpkind == Ijk_Boring || in->jumpkind == Ijk_Call))
      before_jump(&block, in->next);
   return block.out;
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

static void on_client_code(ThreadId thread, ULong superblocks) { end_where_asked(); }

static Bool option(const HChar *argument)
{
   return VG_STR_CLO(argument, "--counts-file", output) ||
          VG_STR_CLO(argument, "--end-file", end_file);
}

static void usage(void)
{
   VG_(printf)("    --counts-file=FILE  where to write (%%p: the process)\n"
               "    --end-file=FILE     where it appears, processes write their counts and end\n");
}

static void no_debug_usage(void) { VG_(printf)("    (none)\n"); }

static void after_options(void)
{
   VG_(atfork)(NULL, NULL, after_fork);
   VG_(track_start_client_code)(on_client_code);
   VG_(track_stop_client_code)(on_client_code);
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
