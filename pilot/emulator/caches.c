/* Three levels of cache.

   A set is kept in order of use; where the line was not in it, two further stages of different size
   are looked into. One stands for a core's second level, the other for a processor's last level. */

#include "counting.h"

#define L2_WAYS 16
#define L2_SETS 1024
#define LLC_WAYS 16
#define LLC_SETS 32768

ULong misses[2][3], fetch_misses;

/* Lines by set, the one used last in front. */

ULong data_l1[L1_SETS][L1_WAYS], code_l1[L1_SETS][L1_WAYS];
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

static inline void access(Addr address, UWord size, ULong counts[3])
{
   ULong line = address >> LINE_BITS, end = (address + size - 1) >> LINE_BITS;
   UInt missed = reach(line);
   if (end != line)
      missed |= reach(end);
   counts[0] += missed & 1;
   counts[1] += missed >> 1 & 1;
   counts[2] += missed >> 2 & 1;
}

VG_REGPARM(2) void on_load(Addr address, UWord size)
{
   access(address, size, misses[0]);
}

VG_REGPARM(2) void on_store(Addr address, UWord size)
{
   access(address, size, misses[1]);
}

VG_REGPARM(1) void on_fetch(ULong line)
{
   if (touch(code_l1[line % L1_SETS], L1_WAYS, line)) {
      fetch_misses++;
      beyond_l1(line);
   }
}
