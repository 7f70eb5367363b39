/* What the kernel of small messages and its reference share. */
#ifndef BERTH_MESSAGE_H
#define BERTH_MESSAGE_H

#include "kernels.h"

enum { MESSAGE_RANKS = 8, MESSAGE_MOST = 32 }; /* integers in a message */

#endif
