/* Whether what is counted has settled, and what the windows missed: by the places of the code.

   A place is an address at which segments begin. The code there is translated anew with each window,
   so several segments have one place; those that were translated while caches were simulated ran in
   windows only, the others between them only.

   Shares: each time that twice as much has run, the instructions of the second half are compared with
   those of the first by their places. Half of the sum of the differences of their shares is how far
   the mix has moved; no share of any kind of instruction has moved by more. */

#include "counting.h"
#include "pub_tool_hashtable.h"

#define SETTLED 0.05 /* the mix has moved by less */
#define UNDER_SEEN 4 /* code is missed by the windows that ran so many times as often outside of them */
#define PER_MILLION 1000000

struct Place_ {
   struct Place_ *next;
   UWord key;
   ULong now, before;  /* instructions executed */
   ULong seen, unseen; /* executions in windows and between them, */
   ULong bytes[2];     /* and the bytes that the latter load and store */
};

Int settle_after = 0;

static VgHashTable *places;
static ULong mark;
static double moved = -1;
static Bool has_settled;

Place *place_at(Addr address)
{
   Place *place;
   if (!places)
      places = VG_(HT_construct)("berth.places");
   place = VG_(HT_lookup)(places, address);
   if (!place) {
      place = VG_(calloc)("berth.place", 1, sizeof *place);
      place->key = address;
      VG_(HT_add_node)(places, place);
   }
   return place;
}

/* How far the mix has moved since the last mark; what has run until now is the next one's first half. */
static double compared(void)
{
   const Segment *segment;
   Place *place;
   ULong earlier = 0, later = 0;
   double apart = 0;
   if (!places)
      return -1;
   complete_counts();
   VG_(HT_ResetIter)(places);
   while ((place = VG_(HT_Next)(places)))
      place->now = 0;
   for (segment = segments; segment; segment = segment->next)
      segment->place->now += segment->count * segment->instructions;
   VG_(HT_ResetIter)(places);
   while ((place = VG_(HT_Next)(places))) {
      earlier += place->before;
      later += place->now - place->before;
   }
   VG_(HT_ResetIter)(places);
   while ((place = VG_(HT_Next)(places))) {
      if (earlier && later) {
         double change = (double)(place->now - place->before) / (double)later -
                         (double)place->before / (double)earlier;
         apart += change < 0 ? -change : change;
      }
      place->before = place->now;
   }
   return earlier && later ? apart / 2 : -1;
}

Bool look_whether_settled(ULong superblocks)
{
   if (!mark || superblocks >= 2 * mark) {
      moved = compared();
      has_settled = moved >= 0 && moved < SETTLED;
      mark = superblocks;
   }
   return has_settled && settle_after && VG_(get_user_milliseconds)() >= (UInt)settle_after;
}

/* In a forked child, of whose program another process runs the rest. */
void forget_settled(void)
{
   Place *place;
   settle_after = 0;
   moved = -1;
   mark = 0;
   has_settled = False;
   if (!places)
      return;
   VG_(HT_ResetIter)(places);
   while ((place = VG_(HT_Next)(places)))
      place->before = 0;
}

/* Bytes moved by code that the windows missed or saw too seldom, which may all be misses. */
static void write_missed(VgFile *file, ULong simulated, ULong superblocks)
{
   const double usual = simulated ? (double)(superblocks - simulated) / (double)simulated : 0;
   double bytes[2] = {0, 0};
   const Segment *segment;
   Place *place;
   for (segment = segments; segment; segment = segment->next) {
      place = segment->place;
      if (segment->simulated) {
         place->seen += segment->count;
      } else {
         place->unseen += segment->count;
         place->bytes[0] += segment->count * segment->load_bytes;
         place->bytes[1] += segment->count * segment->store_bytes;
      }
   }
   VG_(HT_ResetIter)(places);
   while ((place = VG_(HT_Next)(places))) {
      double beyond = (double)place->unseen - UNDER_SEEN * usual * (double)place->seen;
      if (beyond > 0) {
         bytes[0] += beyond / (double)place->unseen * (double)place->bytes[0];
         bytes[1] += beyond / (double)place->unseen * (double)place->bytes[1];
      }
      place->seen = place->unseen = place->bytes[0] = place->bytes[1] = 0;
   }
   VG_(fprintf)(file, "missed_load_bytes %llu\nmissed_store_bytes %llu\n", (ULong)bytes[0],
                (ULong)bytes[1]);
}

/* After the counts are complete. */
void write_settled(VgFile *file, ULong simulated, ULong superblocks)
{
   if (!places)
      return;
   if (superblocks > mark + mark / 2)
      moved = compared();
   if (moved >= 0)
      VG_(fprintf)(file, "moved %llu\n", (ULong)(moved * PER_MILLION));
   write_missed(file, simulated, superblocks);
}
