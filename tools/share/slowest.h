/* tools/share/slowest.h - which of many ranks people see: the slowest. */
#pragma once

#include "share/survey.h"

/* Up to so many ranks have a row each; of more, only the slowest. */
#define SLOWEST_RANKS_MAX 16u
#define SLOWEST_SHOWN 10u

/* Whether only the slowest of `count` ranks are shown: to people, without --all-ranks. */
bool slowest_only(const struct survey *survey, size_t count);

/* Which of `count` ranks are shown: all, or those with the greatest score[], of equal ones the
 * first.  An array of `count` to be freed; NULL: no memory.  Thread: any. */
bool *slowest_ranks(const struct survey *survey, const int64_t *score, size_t count);
