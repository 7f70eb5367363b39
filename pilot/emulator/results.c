/* Results: one file for each process and each program that it became. */

#include "counting.h"
#include "pub_tool_options.h"
#include "pub_tool_vki.h"

Bool over = False;
const HChar *counted_file = NULL;
Int count_for = 0, count_until = 0;

void end_counting(const HChar *why)
{
   VgFile *file;
   write_results();
   over = True;
   file = counted_file ? VG_(fopen)(counted_file, VKI_O_CREAT | VKI_O_WRONLY, 0600) : NULL;
   if (!file)
      return;
   VG_(fprintf)(file, "%s %u\n", why, VG_(get_user_milliseconds)());
   VG_(fclose)(file);
}

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
   forget_windows();
   forget_settled();
}

/* Segments that are not counted themselves are after the one before. */
void complete_counts(void)
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

static void write_branches(VgFile *file)
{
   ULong conditional = 0, indirect = 0;
   const Segment *segment;
   for (segment = segments; segment; segment = segment->next) {
      conditional += segment->conditional ? segment->count : 0;
      indirect += segment->indirect ? segment->count : 0;
   }
   VG_(fprintf)(file, "conditional %llu\nindirect %llu\n", conditional, indirect);
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
   VgFile *file = over ? NULL : new_file();
   if (!file)
      return;
   complete_counts();
   write_windows(file);
   write_branches(file);
   write_segments(file);
   VG_(fprintf)(file, "end\n");
   VG_(fclose)(file);
}
