/* calls.c - the wrappers that a row of calls.def says all about. */
#define PFW_OS_NO_POISON
#include "calls.h"

#include <string.h>

#include "probe.h"

struct pfw_real_calls pfw_real;

#define I64(key, value) (uint64_t)(int64_t)(value)
#define U64(key, value) (uint64_t)(value)

/*
 * Two functions: a call that is not traced leaves by a jump before any register is saved, which no
 * compiler does where the address of a local is known to others.
 */
#define CALL_FD(category, type, name, canonical, params, args, fd, ...)                    \
	static __attribute__((noinline)) type traced_##name params                         \
	{                                                                                  \
		struct pfw_probe probe;                                                    \
		type ret;                                                                  \
                                                                                           \
		if (!pfw_probe_fd(&probe, PFW_CALL_##name, fd))                            \
			return pfw_real.name args;                                         \
		ret = pfw_real.name args;                                                  \
		pfw_probe_end(&probe, (intptr_t)ret == -1,                                 \
			      (const uint64_t[]){ (uint64_t)(intptr_t)ret, (uint64_t)(fd), \
						  __VA_ARGS__ },                           \
			      2 + sizeof((const uint64_t[]){ __VA_ARGS__ }) / 8);          \
		return ret;                                                                \
	}                                                                                  \
	type pfw_wrap_##name params                                                        \
	{                                                                                  \
		if (pfw_probe_fd_passes(fd))                                               \
			return pfw_real.name args;                                         \
		return traced_##name args;                                                 \
	}

#define CALL_PATH(category, type, name, canonical, params, args, dirfd, path, ...)             \
	type pfw_wrap_##name params                                                            \
	{                                                                                      \
		struct pfw_path_probe probe;                                                   \
		type ret;                                                                      \
                                                                                               \
		if (!pfw_probe_path(&probe, PFW_CALL_##name, dirfd, path))                     \
			return pfw_real.name args;                                             \
		ret = pfw_real.name args;                                                      \
		pfw_probe_path_end(&probe, (intptr_t)ret == -1, dirfd, path,                   \
				   (const uint64_t[]){ (uint64_t)(intptr_t)ret, __VA_ARGS__ }, \
				   1 + sizeof((const uint64_t[]){ __VA_ARGS__ }) / 8);         \
		return ret;                                                                    \
	}

#define CALL_STREAM(category, type, name, canonical, params, args, stream, ...)          \
	static __attribute__((noinline)) type traced_##name params                       \
	{                                                                                \
		struct pfw_probe probe;                                                  \
		int fd = pfw_stream_fd(stream);                                          \
		type ret;                                                                \
                                                                                         \
		if (!pfw_probe_fd(&probe, PFW_CALL_##name, fd))                          \
			return pfw_real.name args;                                       \
		ret = pfw_real.name args;                                                \
		pfw_probe_end(&probe, (intptr_t)ret == -1,                               \
			      (const uint64_t[]){ (uint64_t)(intptr_t)ret, (uint64_t)fd, \
						  __VA_ARGS__ },                         \
			      2 + sizeof((const uint64_t[]){ __VA_ARGS__ }) / 8);        \
		return ret;                                                              \
	}                                                                                \
	type pfw_wrap_##name params                                                      \
	{                                                                                \
		int fd = pfw_stream_fd(stream);                                          \
                                                                                         \
		if (fd < 0 || pfw_probe_fd_passes(fd))                                   \
			return pfw_real.name args;                                       \
		return traced_##name args;                                               \
	}

#include "calls.def"

void *const pfw_wrappers[PFW_CALL_COUNT] = {
#define CALL_FD(category, type, name, ...) [PFW_CALL_##name] = (void *)pfw_wrap_##name,
#define CALL_PATH(category, type, name, ...) [PFW_CALL_##name] = (void *)pfw_wrap_##name,
#define CALL_STREAM(category, type, name, ...) [PFW_CALL_##name] = (void *)pfw_wrap_##name,
#define CALL_BY_HAND(category, type, name, ...) [PFW_CALL_##name] = (void *)pfw_wrap_##name,
#include "calls.def"
};
