/* random.h - numbers that are the same in each run (xorshift64). */
#pragma once

#include <stdint.h>
#include <stdlib.h>

/* A test that wants a case of its own sets the state to any number but 0. */
static uint64_t random_state = 0x2545f4914f6cdd1d;

static inline uint64_t any(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Of so many random cases a fifth where the processor is emulated, which takes ten times as long. */
static inline unsigned random_cases(unsigned count)
{
	return getenv("PFW_EMULATED") ? count / 5 : count;
}

static inline uint64_t any_below(uint64_t below)
{
	return any() % below;
}
