/* recorder/wrap/net.c - wrappers of calls on sockets, and of those that wait for descriptors. */
#define PFW_OS_NO_POISON
#include "common/base/text.h"
#include "recorder/guest/peek.h"
#include "recorder/probe/call_filter.h"
#include "recorder/probe/fd_table.h"
#include "recorder/probe/path_filter.h"
#include "recorder/probe/socket_name.h"
#include "recorder/spool/strings.h"
#include "recorder/wrap/calls.h"
#include "recorder/wrap/posix.h"

/* ---- connections ---- */

/* The name of fd's socket once it is connected to the program's address, if the kernel has read
 * that; 0: none. */
static size_t name_to(int fd, const struct sockaddr *to, socklen_t bytes, int error,
		      char name[PFW_SOCKET_NAME_BYTES])
{
	struct sockaddr_storage address = { 0 };

	if (error == EBADF || error == ENOTSOCK || error == EFAULT || error == EINVAL ||
	    bytes > sizeof(address) || !pfw_peek(&address, to, bytes))
		return 0;
	return pfw_socket_name_to(fd, &address, bytes, name);
}

/* After connect(): fd has another name, or will have it when the connection stands. */
static void connect_end(struct pfw_probe *probe, int fd, const struct sockaddr *to, socklen_t bytes,
			int ret)
{
	const uint64_t value[] = { (uint64_t)ret, (uint64_t)fd };
	char text[PFW_SOCKET_NAME_BYTES];
	struct pfw_tail name = { .text = text };
	struct pfw_ending ending = { .value = value,
				     .value_count = PFW_ARRAY_LEN(value),
				     .error = ret < 0 ? errno : 0,
				     .t1 = pfw_clock_ticks(),
				     .any_name = true };
	bool stands = !ret || ending.error == EINPROGRESS || ending.error == EINTR;
	uint32_t string;

	if (probe->name == PFW_NAME_BY_LINK)
		probe->name = 0;
	name.text_bytes = (uint32_t)name_to(fd, to, bytes, ending.error, text);
	ending.name = name.text_bytes ? &name : NULL;
	pfw_probe_end_full(probe, &ending);
	if (ending.error == EBADF || ending.error == ENOTSOCK)
		return;
	string = stands && name.text_bytes && pfw_probe_names()
			 ? pfw_string_create(NULL, 0, text, name.text_bytes)
			 : 0;
	pfw_fd_store(fd, string ? PFW_FD_TRACED : PFW_FD_UNKNOWN, string);
}

#define CONNECT(name)                                                                     \
	int pfw_wrap_##name(int fd, __CONST_SOCKADDR_ARG to, socklen_t bytes)             \
	{                                                                                 \
		struct pfw_probe probe;                                                   \
		bool traced = pfw_probe_fd(&probe, pfw_call_filter[PFW_CALL_##name], fd); \
		int ret = pfw_real.name(fd, to, bytes);                                   \
                                                                                          \
		if (traced)                                                               \
			connect_end(&probe, fd, to.__sockaddr__, bytes, ret);             \
		return ret;                                                               \
	}

CONNECT(connect)
CONNECT(__connect)
#undef CONNECT

/* A call on fd, and what the table of descriptors has to learn afterwards. */
#define ON_SOCKET(name, call, params, args, learn, ...)                                           \
	int pfw_wrap_##name params                                                                \
	{                                                                                         \
		struct pfw_probe probe;                                                           \
		bool traced = pfw_probe_fd(&probe, call, fd);                                     \
		int ret = pfw_real.name args;                                                     \
                                                                                                  \
		if (traced)                                                                       \
			pfw_end_fd(&probe, PFW_VALUES((uint64_t)ret, (uint64_t)fd, __VA_ARGS__)); \
		learn(traced, fd, ret);                                                           \
		return ret;                                                                       \
	}

/* The name has the socket's own address, while the socket is not connected. */
static void learn_name(bool traced, int fd, int ret)
{
	if (traced && !ret)
		pfw_fd_store(fd, PFW_FD_UNKNOWN, 0);
}

static void learn_accepted(bool traced, int fd, int ret)
{
	(void)fd;
	if (ret >= 0 && (traced || pfw_probe_on()))
		pfw_fd_store(ret, PFW_FD_UNKNOWN, 0);
}

static void learn_nothing(bool traced, int fd, int ret)
{
	(void)traced;
	(void)fd;
	(void)ret;
}

ON_SOCKET(bind, pfw_call_filter[PFW_CALL_bind], (int fd, __CONST_SOCKADDR_ARG at, socklen_t bytes),
	  (fd, at, bytes), learn_name)
ON_SOCKET(listen, pfw_call_filter[PFW_CALL_listen], (int fd, int backlog), (fd, backlog),
	  learn_name, (uint64_t)backlog)
ON_SOCKET(accept, PFW_CALL_accept, (int fd, __SOCKADDR_ARG from, socklen_t *bytes),
	  (fd, from, bytes), learn_accepted)
ON_SOCKET(accept4, PFW_CALL_accept4, (int fd, __SOCKADDR_ARG from, socklen_t *bytes, int flags),
	  (fd, from, bytes, flags), learn_accepted, (uint64_t)flags)

/* ---- several messages ---- */

static uint64_t bytes_of(const struct mmsghdr *message, int count)
{
	uint64_t bytes = 0;

	for (int i = 0; i < count; i++)
		bytes += message[i].msg_len;
	return bytes;
}

ON_SOCKET(sendmmsg, PFW_CALL_sendmmsg, (int fd, struct mmsghdr *message, unsigned count, int flags),
	  (fd, message, count, flags), learn_nothing, bytes_of(message, ret), (uint64_t)flags)
ON_SOCKET(recvmmsg, PFW_CALL_recvmmsg,
	  (int fd, struct mmsghdr *message, unsigned count, int flags, struct timespec *limit),
	  (fd, message, count, flags, limit), learn_nothing, bytes_of(message, ret),
	  (uint64_t)flags)
#undef ON_SOCKET

/* ---- waiting ---- */

/* As calls on descriptors without a path. */
static bool wait_begin(struct pfw_probe *probe, uint16_t call)
{
	return pfw_probe_bare(probe, call) && pfw_path_filter_nameless();
}

/* End a call that waited for `count` descriptors: "fds:[3]"; or for fd alone (-1: not), which has a
 * name.  `at_most`: they are among the first `count` numbers. */
static void wait_end(struct pfw_probe *probe, int fd, bool at_most, uint64_t count,
		     const uint64_t *value, unsigned value_count)
{
	struct pfw_ending ending = { .value = value,
				     .value_count = value_count,
				     .error = (int64_t)value[0] == -1 ? errno : 0,
				     .t1 = pfw_clock_ticks(),
				     .any_name = true };
	uint64_t entry = fd >= 0 ? pfw_fd_resolve(fd) : 0;
	struct pfw_tail name;
	struct pfw_text text;
	char buffer[40];

	if (pfw_fd_state(entry) == PFW_FD_UNTRACED)
		return;
	if (pfw_fd_state(entry) == PFW_FD_TRACED && pfw_fd_name(entry) != PFW_NAME_BY_LINK) {
		probe->name = pfw_fd_name(entry);
		pfw_end_fd(probe, value, value_count);
		return;
	}
	pfw_text_init(&text, buffer, sizeof(buffer));
	pfw_text_add(&text, at_most && count ? "fds:[<" : "fds:[");
	pfw_text_add_u64(&text, count, 1);
	pfw_text_add(&text, "]");
	name = (struct pfw_tail){ .text = buffer, .text_bytes = (uint32_t)(text.at - text.start) };
	ending.name = &name;
	pfw_probe_end_full(probe, &ending);
}

/* The descriptor of a poll() of one, which the kernel has read; -1. */
static int only_one(const struct pollfd *fds, nfds_t count, int ret)
{
	return count == 1 && (ret >= 0 || errno == EINTR) ? fds->fd : -1;
}

/* A call that waits for `number` descriptors, or for `fd` alone, expressions of `ret`: see wait_end(). */
#define WAITS(name, params, args, fd, at_most, number, ...)               \
	int pfw_wrap_##name params                                        \
	{                                                                 \
		struct pfw_probe probe;                                   \
		bool traced = wait_begin(&probe, PFW_CALL_##name);        \
		int ret = pfw_real.name args;                             \
                                                                          \
		if (traced)                                               \
			wait_end(&probe, fd, at_most, number,             \
				 PFW_VALUES((uint64_t)ret, __VA_ARGS__)); \
		return ret;                                               \
	}

#define POLL(name, params, args, ...) \
	WAITS(name, params, args, only_one(fds, count, ret), false, count, __VA_ARGS__)

POLL(poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout),
     (uint64_t)timeout)
POLL(__poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout),
     (uint64_t)timeout)
POLL(__poll_chk, (struct pollfd * fds, nfds_t count, int timeout, size_t room),
     (fds, count, timeout, room), (uint64_t)timeout)
POLL(ppoll, (struct pollfd * fds, nfds_t count, const struct timespec *limit, const sigset_t *mask),
     (fds, count, limit, mask))
POLL(__ppoll_chk,
     (struct pollfd * fds, nfds_t count, const struct timespec *limit, const sigset_t *mask,
      size_t room),
     (fds, count, limit, mask, room))
#undef POLL

#define SELECT(name, params, args) \
	WAITS(name, params, args, -1, true, count > 0 ? (uint64_t)count : 0)

SELECT(select, (int count, fd_set *in, fd_set *out, fd_set *other, struct timeval *limit),
       (count, in, out, other, limit))
SELECT(__select, (int count, fd_set *in, fd_set *out, fd_set *other, struct timeval *limit),
       (count, in, out, other, limit))
SELECT(pselect,
       (int count, fd_set *in, fd_set *out, fd_set *other, const struct timespec *limit,
	const sigset_t *mask),
       (count, in, out, other, limit, mask))
#undef SELECT
#undef WAITS

/* ---- names of hosts ---- */

/* "dns:[www.example.org:http]" */
int pfw_wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
			 struct addrinfo **found)
{
	struct pfw_probe probe;
	bool traced = wait_begin(&probe, PFW_CALL_getaddrinfo);
	int ret = pfw_real.getaddrinfo(node, service, hints, found);
	const uint64_t value[] = { (uint64_t)ret };
	struct pfw_ending ending = { .value = value, .value_count = 1, .any_name = true };
	char buffer[320];
	struct pfw_text text;
	struct pfw_tail name;

	if (!traced)
		return ret;
	ending.t1 = pfw_clock_ticks();
	ending.error = ret == EAI_SYSTEM ? errno : 0;
	pfw_text_init(&text, buffer, sizeof(buffer) - 1);
	pfw_text_add(&text, "dns:[");
	if (node)
		pfw_text_add_bytes(&text, node, strnlen(node, 255));
	if (service)
		PFW_TEXT_ADD(&text, ":", service);
	text.end++; /* kept for it, however long the names are */
	pfw_text_add(&text, "]");
	name = (struct pfw_tail){ .text = buffer, .text_bytes = (uint32_t)(text.at - text.start) };
	ending.name = &name;
	pfw_probe_end_full(&probe, &ending);
	return ret;
}
