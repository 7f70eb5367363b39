/* Results: one file for each process and each program that it became. */

#include "counting.h"
#include "pub_tool_options.h"
#include "pub_tool_vki.h"

const HChar *end_file = NULL;

void end_where_asked(void)
{
   struct vg_stat state;
   if (!end_file || sr_isError(VG_(stat)(end_file, &state)))
      return;
   write_results();
   VG_(exit)(0);
}

void forget(void)
{
   Segment *segment;
   for (segment = segments; segment; segment = segment->next)
      segment->count = segment->taken = 0;
   forget_branches();
   VG_(memset)(misses, 0, sizeof misses);
   fetch_misses = 0;
}

/* Segments that are not counted themselves are after the one before. */
static void complete_counts(void)
{
   Segment *segment;
   for (segment = segments; segment; segment = segment->next) {
      const Segment *before = segment->before;
      if (segment->reached == AS_BEFORE)
         segment->count = before->count;
      else if (segment->reached == WHERE_TAKEN)
         segment->count = before->taken;
      else if (segment->reached == WHERE_NOT_TAKEN)
         segment->count = before->count - before->taken;
   }
}

static void write_misses(VgFile *file)
{
   static const HChar *const kinds[] = {"load", "store"}, *const levels[] = {"l1", "l2", "llc"};
   UInt kind, level;
   for (kind = 0; kind < 2; kind++)
      for (level = 0; level < 3; level++)
         VG_(fprintf)(file, "%s_%s_misses %llu\n", levels[level], kinds[kind], misses[kind][level]);
   VG_(fprintf)(file, "l1_instruction_misses %llu\n", fetch_misses);
}

static void write_branches(VgFile *file)
{
   ULong conditional = 0, indirect = 0, taken = 0;
   const Segment *segment;
   for (segment = segments; segment; segment = segment->next) {
      conditional += segment->conditional ? segment->count : 0;
      indirect += segment->indirect ? segment->count : 0;
      taken += segment->taken;
   }
   VG_(fprintf)(file, "conditional %llu\nindirect %llu\ntaken %llu\n", conditional, indirect, taken);
   VG_(fprintf)(file, "conditional_missed %llu\nindirect_missed %llu\n", conditional_missed(),
                indirect_missed);
}

static void write_segment(VgFile *file, const Segment *segment)
{
   static const HChar digits[] = "0123456789abcdef";
   UInt i;
   VG_(fprintf)(file, "%llu %lx %u %u %u %u %d ", segment->count, segment->first, segment->loads,
                segment->stores, segment->load_bytes, segment->store_bytes, segment->region);
   for (i = 0; i < segment->instructions; i++)
      VG_(fprintf)(file, "%c", digits[segment->bytes[i] & 15]);
   VG_(fprintf)(file, segment->instructions ? " " : "- -");
   for (i = 0; i < segment->code; i++)
      VG_(fprintf)(file, "%02x", segment->bytes[segment->room + i]);
   VG_(fprintf)(file, "\n");
}

static void write_segments(VgFile *file)
{
   const HChar *object = NULL;
   const Segment *segment;
   for (segment = segments; segment; segment = segment->next) {
      if (!segment->count)
         continue;
      if (segment->object != object) {
         object = segment->object;
         VG_(fprintf)(file, "object %s\n", object ? object : "");
      }
      write_segment(file, segment);
   }
}

/* A new file, numbered after those that this process wrote before it became another program. */
static VgFile *new_file(void)
{
   HChar *name = VG_(expand_file_name)("--counts-file", output);
   HChar *path = VG_(malloc)("berth.path", VG_(strlen)(name) + 16);
   VgFile *file = NULL;
   UInt part;
   for (part = 0; !file && part < 1000; part++) {
      VG_(sprintf)(path, "%s.%u", name, part);
      file = VG_(fopen)(path, VKI_O_CREAT | VKI_O_EXCL | VKI_O_WRONLY, 0600);
   }
   if (!file)
      VG_(message)(Vg_UserMsg, "%s cannot be written\n", path);
   VG_(free)(path);
   VG_(free)(name);
   return file;
}

void write_results(void)
{
   VgFile *file = new_file();
   if (!file)
      return;
   complete_counts();
   write_misses(file);
   write_branches(file);
   write_segments(file);
   VG_(fprintf)(file, "end\n");
   VG_(fclose)(file);
}
