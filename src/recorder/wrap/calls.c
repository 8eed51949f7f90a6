/* recorder/wrap/calls.c - the wrappers that are made from a row of common/calls/calls.def alone. */
#define PFW_OS_NO_POISON
#include "recorder/wrap/calls.h"

#include "recorder/probe/probe.h"

struct pfw_real_calls pfw_real;

#define I64(key, value) (uint64_t)(int64_t)(value)
#define U64(key, value) (uint64_t)(value)
#define NAMES(set, key, value) (uint64_t)(value)

/* Two functions: an untraced call leaves by a jump before any register is saved.  No compiler does
 * that in a function that passes the address of a local variable on. */
#define CALL_FD(category, type, name, canonical, role, moves, params, args, fd, ...)             \
	static __attribute__((noinline)) type traced_##name params                               \
	{                                                                                        \
		struct pfw_probe probe;                                                          \
		type ret;                                                                        \
                                                                                                 \
		if (!pfw_probe_fd(&probe, PFW_CALL_##name, fd))                                  \
			return pfw_real.name args;                                               \
		ret = pfw_real.name args;                                                        \
		pfw_probe_end(&probe, (intptr_t)ret == -1,                                       \
			      PFW_VALUES((uint64_t)(intptr_t)ret, (uint64_t)(fd), __VA_ARGS__)); \
		return ret;                                                                      \
	}                                                                                        \
	type pfw_wrap_##name params                                                              \
	{                                                                                        \
		if (pfw_probe_fd_passes(fd))                                                     \
			return pfw_real.name args;                                               \
		return traced_##name args;                                                       \
	}

#define CALL_PATH(category, type, name, canonical, role, moves, params, args, dirfd, path, ...) \
	type pfw_wrap_##name params                                                             \
	{                                                                                       \
		struct pfw_path_probe probe;                                                    \
		type ret;                                                                       \
                                                                                                \
		if (!pfw_probe_path(&probe, PFW_CALL_##name, dirfd, path))                      \
			return pfw_real.name args;                                              \
		ret = pfw_real.name args;                                                       \
		pfw_probe_path_end(&probe, (intptr_t)ret == -1, dirfd, path,                    \
				   PFW_VALUES((uint64_t)(intptr_t)ret, __VA_ARGS__));           \
		return ret;                                                                     \
	}

#define CALL_STREAM(category, type, name, canonical, role, moves, params, args, stream, ...)   \
	static __attribute__((noinline)) type traced_##name params                             \
	{                                                                                      \
		struct pfw_probe probe;                                                        \
		int fd = pfw_stdio_fd(stream);                                                 \
		type ret;                                                                      \
                                                                                               \
		if (!pfw_probe_fd(&probe, PFW_CALL_##name, fd))                                \
			return pfw_real.name args;                                             \
		ret = pfw_real.name args;                                                      \
		pfw_probe_end(&probe, (intptr_t)ret == -1,                                     \
			      PFW_VALUES((uint64_t)(intptr_t)ret, (uint64_t)fd, __VA_ARGS__)); \
		return ret;                                                                    \
	}                                                                                      \
	type pfw_wrap_##name params                                                            \
	{                                                                                      \
		int fd = pfw_stdio_fd(stream);                                                 \
                                                                                               \
		if (fd < 0 || pfw_probe_fd_passes(fd))                                         \
			return pfw_real.name args;                                             \
		return traced_##name args;                                                     \
	}

#include "common/calls/calls.def"

void *const pfw_wrappers[PFW_CALL_COUNT] = {
#define CALL_ANY(category, type, name, ...) [PFW_CALL_##name] = (void *)pfw_wrap_##name,
#include "common/calls/calls.def"
};
