/* A walk through a shuffled list, a hash table and a sort: dependent loads and unforeseen branches. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t state = 88172645463325252ull;

static uint64_t next(void)
{
   state ^= state << 13;
   state ^= state >> 7;
   return state ^= state << 17;
}

static int compare(const void *a, const void *b)
{
   uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
   return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
   long turns = atol(argv[1]), i;
   uint32_t cells = 1 << 20, at = 0, *list = malloc(cells * sizeof *list), *keys;
   uint64_t *table = calloc(cells, sizeof *table), found = 0;
   (void)argc;
   for (i = 0; i < cells; i++)
      list[i] = (uint32_t)i;
   for (i = cells - 1; i > 0; i--) { /* one cycle through all cells */
      uint32_t other = (uint32_t)(next() % (uint64_t)i), kept = list[i];
      list[i] = list[other];
      list[other] = kept;
   }
   for (i = 0; i < turns; i++)
      at = list[at];
   for (i = 0; i < turns / 2; i++) {
      uint64_t key = next() % 3000000 + 1, slot = key * 0x9E3779B97F4A7C15ull >> 44;
      while (table[slot] && table[slot] != key)
         slot = (slot + 1) & (cells - 1);
      found += table[slot] == key;
      if (found + (uint64_t)i < cells / 2)
         table[slot] = key;
   }
   keys = malloc((size_t)(turns / 8) * sizeof *keys);
   for (i = 0; i < turns / 8; i++)
      keys[i] = (uint32_t)next();
   qsort(keys, (size_t)(turns / 8), sizeof *keys, compare);
   printf("%u %lu %u\n", at, (unsigned long)found, keys[turns / 16]);
   return 0;
}
