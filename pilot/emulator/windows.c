/* Windows: the parts of a run in which caches and branches are simulated.

   Everything else is counted throughout, at a tenth more than valgrind's own cost; the simulation
   doubles or triples that. So a long run is cut into stretches. At the beginning of each there is a
   window: a warm-up, in which the caches fill again, and a part that is counted. What was counted
   there stands for the whole stretch. The first window begins with the program and has no warm-up.

   Lengths are in superblocks, not in seconds: the same program has the same windows each time. To
   begin or end a window all code is translated anew, which costs much for large programs; the
   stretch is long enough that its window and these translations are a small part of the cost. */

#include "libvex_guest_amd64.h"
#include "counting.h"

#define FIRST 2000000ull   /* counted at the beginning */
#define WARM_UP 500000ull
#define COUNTED_NEXT 1000000ull
#define SIMULATION 2       /* what it costs more, in superblocks that only are counted */
#define TRANSLATION 8000ull /* the cost of one, likewise */
#define AGAINST 3          /* the cost of a window is at most one part in so many */
#define GROWTH 10          /* and a stretch is at least one part in so many of what has run */
#define MOST_GROWTH 4      /* but at most so many times what had run before it */
#define MOST_WINDOWS 1000

Bool simulating = True, sampled = False;
UInt translated;

typedef struct {
   ULong misses[2][3], fetch_misses, conditional_missed, indirect_missed, taken;
} Seen;

typedef struct {
   ULong length, counted; /* superblocks */
   Seen seen;
} Window;

static Window windows[MOST_WINDOWS];
static UInt many; /* stretches before this one */
static enum { WARMING, COUNTING, PAUSED } phase = COUNTING;
static ULong now, begun, counted_from, simulated_blocks, next = FIRST;
static ULong started, simulated_before; /* of this process; in windows that have ended */
static Seen before;
static ULong switch_wanted;

static Seen seen_until_now(void)
{
   Seen seen = {.fetch_misses = fetch_misses, .conditional_missed = conditional_missed(),
                .indirect_missed = indirect_missed};
   const Segment *segment;
   VG_(memcpy)(seen.misses, misses, sizeof misses);
   for (segment = segments; segment; segment = segment->next)
      seen.taken += segment->taken;
   return seen;
}

static void keep_window(void)
{
   Window *window = &windows[many];
   Seen seen = seen_until_now();
   ULong *to = (ULong *)&window->seen, *after = (ULong *)&seen, *from = (ULong *)&before;
   UInt i;
   for (i = 0; i < sizeof seen / sizeof *to; i++)
      to[i] = after[i] - from[i];
   window->counted = now - counted_from;
}

/* Whether the window that ended is far enough back for the next one. Interpreters and compilers have
   so much code that one translation of it costs more than their whole run: what they do after their
   start is seen because a stretch cannot grow further. */
static Bool is_over(void)
{
   ULong cost = SIMULATION * simulated_blocks + TRANSLATION * translated;
   ULong paused = now - begun - simulated_blocks;
   if (paused >= MOST_GROWTH * (begun + simulated_blocks))
      return True;
   return paused >= AGAINST * cost && paused >= now / GROWTH;
}

static void on_client_code(ThreadId thread, ULong done)
{
   now = done;
   end_where_asked();
   if (over)
      return;
   if (count_for && VG_(get_user_milliseconds)() >= (UInt)count_for)
      end_counting("processor time");
   else if (count_until && VG_(read_millisecond_timer)() >= (UInt)count_until)
      end_counting("time limit");
   if (over || !sampled || now < next) {
      switch_wanted |= over;
      return;
   }
   if (phase == WARMING) {
      before = seen_until_now();
      counted_from = now;
      next = now + COUNTED_NEXT;
      phase = COUNTING;
      return;
   }
   if (phase == COUNTING) {
      keep_window();
      simulated_blocks = now - begun;
      simulated_before += simulated_blocks;
      if (!many) /* the program's first translations would have been made without windows, too */
         translated = 0;
      phase = PAUSED;
      if (look_whether_settled(now - started))
         end_counting("settled");
   } else if (!is_over()) {
      /* the first window is of the program's start only */
      if (!many || !look_whether_settled(now - started))
         return;
      end_counting("settled");
   } else {
      windows[many].length = now - begun;
      if (many + 1 < MOST_WINDOWS)
         many++;
      VG_(memset)(&windows[many], 0, sizeof windows[many]);
      begun = now;
      translated = 0;
      next = now + WARM_UP;
      phase = WARMING;
   }
   switch_wanted = 1;
}

void begin_windows(void)
{
   VG_(track_start_client_code)(on_client_code);
   VG_(track_stop_client_code)(on_client_code);
}

static void switch_over(VexGuestAMD64State *state)
{
   switch_wanted = 0;
   simulating = phase != PAUSED;
   state->guest_CMSTART = 0x1000;
   state->guest_CMLEN = ~0xfffull;
}

void leave_at_switch(IRSB *out, Addr address)
{
   IRExpr *wanted = let(out, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64,
                                                  constant((ULong)(Addr)&switch_wanted)));
   IRExpr *guard = let(out, Ity_I1, IRExpr_Binop(Iop_CmpNE64, wanted, constant(0)));
   IRDirty *dirty = unsafeIRDirty_0_N(0, "switch_over", VG_(fnptr_to_fnentry)(switch_over),
                                      mkIRExprVec_1(IRExpr_GSPTR()));
   dirty->guard = guard;
   dirty->nFxState = 1;
   VG_(memset)(&dirty->fxState, 0, sizeof dirty->fxState);
   dirty->fxState[0].fx = Ifx_Write;
   dirty->fxState[0].offset = offsetof(VexGuestAMD64State, guest_CMSTART);
   dirty->fxState[0].size = 2 * sizeof(ULong);
   addStmtToIRSB(out, IRStmt_Dirty(dirty));
   addStmtToIRSB(out, IRStmt_Exit(guard, Ijk_InvalICache, IRConst_U64(address),
                                  offsetof(VexGuestAMD64State, guest_RIP)));
}

/* In a forked child: a new window soon. */
void forget_windows(void)
{
   many = 0;
   VG_(memset)(&windows[0], 0, sizeof windows[0]);
   VG_(memset)(&before, 0, sizeof before);
   begun = counted_from = started = now;
   simulated_blocks = simulated_before = translated = 0;
}

void write_windows(VgFile *file)
{
   UInt i, k;
   if (phase == COUNTING)
      keep_window();
   windows[many].length = now - begun;
   for (i = 0; i <= many; i++) {
      const ULong *seen = (const ULong *)&windows[i].seen;
      VG_(fprintf)(file, "window %llu %llu", windows[i].length, windows[i].counted);
      for (k = 0; k < sizeof(Seen) / sizeof *seen; k++)
         VG_(fprintf)(file, " %llu", seen[k]);
      VG_(fprintf)(file, "\n");
   }
   write_settled(file, simulated_before + (phase == PAUSED ? 0 : now - begun), now - started);
}
