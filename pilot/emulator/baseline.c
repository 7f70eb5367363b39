/* A processor that, by what CPUID says of it, has nothing beyond x86-64-v2: no AVX, BMI, FMA ...

   Programs that choose their code by the processor then choose the plainest; what they still execute
   of such instructions they need. The instructions themselves work as before. */

#include "counting.h"
#include "libvex_guest_amd64.h"

#define HIDDEN_1_ECX \
   ((1u << 12) /* fma */ | (1u << 22) /* movbe */ | (1u << 25) /* aes */ | (1u << 1) /* pclmulqdq */ | \
    (1u << 26) /* xsave */ | (1u << 27) /* osxsave */ | (1u << 28) /* avx */ | (1u << 29) /* f16c */ | \
    (1u << 30) /* rdrand */)

Bool plain = False;

static void (*processor)(VexGuestAMD64State *);

static void plain_processor(VexGuestAMD64State *state)
{
   UInt leaf = (UInt)state->guest_RAX;
   processor(state);
   if (leaf == 1)
      state->guest_RCX &= ~(ULong)HIDDEN_1_ECX;
   else if (leaf == 0x80000001)
      state->guest_RCX &= 1; /* lahf and sahf; not lzcnt, sse4a, xop, fma4 */
   else if (leaf == 7)
      state->guest_RBX = state->guest_RCX = state->guest_RDX = 0;
   else if (leaf == 0xd || leaf == 0x14 || leaf == 0x19 || leaf == 0x24)
      state->guest_RAX = state->guest_RBX = state->guest_RCX = state->guest_RDX = 0;
}

void hide_extensions(IRDirty *dirty)
{
   static const HChar asks[] = "amd64g_dirtyhelper_CPUID_";
   if (!plain || VG_(strncmp)(dirty->cee->name, asks, sizeof asks - 1) != 0)
      return;
   processor = dirty->cee->addr;
   dirty->cee = mkIRCallee(dirty->cee->regparms, "plain_processor",
                           VG_(fnptr_to_fnentry)(plain_processor));
}
