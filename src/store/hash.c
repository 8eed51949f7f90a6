/* hash.c - the seed of this process's hashes. */
#include "hash.h"

#include <stdatomic.h>
#include <sys/random.h>
#include <time.h>

uint64_t pfw_hash_seed(void)
{
	static _Atomic uint64_t seed;
	uint64_t value = atomic_load_explicit(&seed, memory_order_relaxed), none = 0;
	struct timespec now;

	if (value)
		return value;
	if (getrandom(&value, sizeof(value), GRND_NONBLOCK) != (ssize_t)sizeof(value)) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		value = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec ^ (uintptr_t)&now;
	}
	value |= 1;
	/* Whoever comes first decides: pairs with the load above in other threads. */
	return atomic_compare_exchange_strong(&seed, &none, value) ? value : none;
}
