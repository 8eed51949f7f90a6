/* calls_net.h - the cases of calls_target.c on sockets and on waiting. */
#pragma once

#include "calls_files.h"

#define UNIX "socket:[unix]"

/* Sockets are made and asked unseen. */
static int raw_socket(int type)
{
	long fd = syscall(SYS_socket, AF_INET, type, 0);

	if (fd < 0)
		fail("cannot make", "a socket");
	return (int)fd;
}

static struct sockaddr_in own_address(int fd)
{
	struct sockaddr_in own;
	socklen_t bytes = sizeof(own);

	if (syscall(SYS_getsockname, fd, &own, &bytes) < 0)
		fail("cannot ask", "a socket");
	return own;
}

/* A socket at a free port of this machine. */
static int raw_bound(int type, bool listens)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = raw_socket(type);

	if (syscall(SYS_bind, fd, &at, sizeof(at)) < 0 ||
	    (listens && syscall(SYS_listen, fd, 5) < 0))
		fail("cannot bind", "a socket");
	return fd;
}

static void raw_close(int fd)
{
	syscall(SYS_close, fd);
}

static void raw_pair(int pair[2])
{
	if (syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		fail("cannot make", "a pair of sockets");
}

/* The name of a socket in the trace. */
static const char *called(const char *protocol, struct sockaddr_in at, const char *state)
{
	static char buffer[4][128];
	static unsigned turn;
	char *name = buffer[turn++ % 4];

	snprintf(name, sizeof(buffer[0]), "socket:[%s 127.0.0.1:%d%s]", protocol,
		 ntohs(at.sin_port), state);
	return name;
}

static void case_socket(void)
{
	CALL(FN(socket)(AF_INET, SOCK_STREAM, 0));
	EXPECT("socket:[tcp]", (int)result, "%s", "");
	closed((int)result, "socket:[tcp]");
	CALL(FN(socket)(-1, SOCK_STREAM, 0));
	EXPECT(NULL, NO_FD, "%s", "");
}

static void case_socketpair(void)
{
	int pair[2];

	CALL(FN(socketpair)(AF_UNIX, SOCK_STREAM, 0, pair));
	EXPECT(UNIX, pair[0], "'fd_out':%d", pair[1]);
	closed(pair[0], UNIX);
	closed(pair[1], UNIX);
	CALL(FN(socketpair)(-1, SOCK_STREAM, 0, pair));
	EXPECT(NULL, NO_FD, "'fd_out':-1");
}

static void case_make_eventfd(void)
{
	CALL(FN(eventfd)(1, EFD_NONBLOCK));
	EXPECT("anon_inode:[eventfd]", (int)result, "%s", "");
	closed((int)result, "anon_inode:[eventfd]");
	CALL(FN(eventfd)(1, -1));
	EXPECT(NULL, NO_FD, "%s", "");
}

static void case_connect(void)
{
	int server = raw_bound(SOCK_STREAM, true), fd = raw_socket(SOCK_STREAM);
	struct sockaddr_in at = own_address(server);

	CALL(THIS(connect)(fd, (struct sockaddr *)&at, sizeof(at)));
	EXPECT(called("tcp", at, ""), fd, "%s", "");
	closed(fd, called("tcp", at, ""));
	raw_close(server);
	fd = raw_socket(SOCK_STREAM);
	CALL(THIS(connect)(fd, (struct sockaddr *)&at, sizeof(at))); /* nobody is there now */
	EXPECT(called("tcp", at, ""), fd, "%s", "");
	raw_close(fd);
	fd = raw_socket(SOCK_STREAM);
	CALL(THIS(connect)(fd, (struct sockaddr *)BAD, sizeof(at)));
	EXPECT("socket:[tcp]", fd, "%s", "");
	raw_close(fd);
	CALL(THIS(connect)(999, (struct sockaddr *)&at, sizeof(at)));
	EXPECT(NULL, 999, "%s", "");
	fd = raw_socket(SOCK_DGRAM);
	CALL(THIS(connect)(fd, (struct sockaddr *)&at, sizeof(at)));
	EXPECT(called("udp", at, ""), fd, "%s", "");
	closed(fd, called("udp", at, ""));
}

static void case_bind(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = raw_socket(SOCK_DGRAM);

	CALL(THIS(bind)(fd, (struct sockaddr *)&at, sizeof(at)));
	EXPECT("socket:[udp]", fd, "%s", "");
	closed(fd, called("udp", own_address(fd), " bound"));
	CALL(THIS(bind)(999, (struct sockaddr *)&at, sizeof(at)));
	EXPECT(NULL, 999, "%s", "");
}

static void case_listen(void)
{
	int fd = raw_bound(SOCK_STREAM, false);
	struct sockaddr_in at = own_address(fd);

	CALL(THIS(listen)(fd, 5));
	EXPECT(called("tcp", at, " bound"), fd, "'backlog':5");
	closed(fd, called("tcp", at, " listen"));
	CALL(THIS(listen)(999, 5));
	EXPECT(NULL, 999, "'backlog':5");
}

static void case_accept(void)
{
	int server = raw_bound(SOCK_STREAM, true), client = raw_socket(SOCK_STREAM);
	struct sockaddr_in at = own_address(server);
	bool four = !strcmp(now->symbol, "accept4");
	char fields[32] = "";

	if (syscall(SYS_connect, client, &at, sizeof(at)) < 0)
		fail("cannot connect", "a socket");
	if (four)
		CALL(FN(accept4)(server, NULL, NULL, SOCK_CLOEXEC));
	else
		CALL(FN(accept)(server, NULL, NULL));
	if (four)
		snprintf(fields, sizeof(fields), "'flags':%d", SOCK_CLOEXEC);
	EXPECT(called("tcp", at, " listen"), server, "%s", fields);
	closed((int)result, called("tcp", own_address(client), ""));
	raw_close(client);
	closed(server, called("tcp", at, " listen"));
	if (four)
		CALL(FN(accept4)(999, NULL, NULL, 0));
	else
		CALL(FN(accept)(999, NULL, NULL));
	EXPECT(NULL, 999, "%s", four ? "'flags':0" : "");
}

static void case_shutdown(void)
{
	int pair[2];

	raw_pair(pair);
	CALL(THIS(shutdown)(pair[0], SHUT_WR));
	EXPECT(UNIX, pair[0], "'how':%d", SHUT_WR);
	closed(pair[0], UNIX);
	raw_close(pair[1]);
	CALL(THIS(shutdown)(999, SHUT_RDWR));
	EXPECT(NULL, 999, "'how':%d", SHUT_RDWR);
}

/* All that send bytes, or receive them: works on a pair, and on a number that is not open. */
#define SENDS(name, call, fields, ...)                                          \
	static void case_##name(void)                                           \
	{                                                                       \
		struct iovec piece = { (char *)"abc", 3 };                      \
		struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 }; \
		int pair[2], fd;                                                \
                                                                                \
		(void)message;                                                  \
		raw_pair(pair);                                                 \
		fd = pair[0];                                                   \
		CALL(call);                                                     \
		EXPECT(UNIX, fd, fields, __VA_ARGS__);                          \
		say("%ld\n", syscall(SYS_read, pair[1], buffer, 10));           \
		closed(fd, UNIX);                                               \
		raw_close(pair[1]);                                             \
		fd = 999;                                                       \
		CALL(call);                                                     \
		EXPECT(NULL, fd, fields, __VA_ARGS__);                          \
	}

SENDS(send, THIS(send)(fd, "abc", 3, MSG_NOSIGNAL), "'count':3,'flags':%d", MSG_NOSIGNAL)
SENDS(sendto, THIS(sendto)(fd, "abc", 3, 0, (struct sockaddr *)NULL, 0), "'count':3,'flags':%d", 0)
SENDS(sendmsg, THIS(sendmsg)(fd, &message, MSG_DONTWAIT), "'flags':%d", MSG_DONTWAIT)
#undef SENDS

#define RECEIVES(name, call, fields, ...)                                       \
	static void case_##name(void)                                           \
	{                                                                       \
		struct iovec piece = { buffer, 10 };                            \
		struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 }; \
		int pair[2], fd;                                                \
                                                                                \
		(void)message;                                                  \
		raw_pair(pair);                                                 \
		fd = pair[0];                                                   \
		syscall(SYS_write, pair[1], "abc", 3);                          \
		CALL(call);                                                     \
		EXPECT(UNIX, fd, fields, __VA_ARGS__);                          \
		say("%.3s\n", buffer);                                          \
		closed(fd, UNIX);                                               \
		raw_close(pair[1]);                                             \
		fd = 999;                                                       \
		CALL(call);                                                     \
		EXPECT(NULL, fd, fields, __VA_ARGS__);                          \
	}

RECEIVES(recv, THIS(recv)(fd, buffer, 10, MSG_PEEK), "'count':10,'flags':%d", MSG_PEEK)
RECEIVES(recv_chk, THIS(__recv_chk)(fd, buffer, 10, 20, 0), "'count':10,'flags':%d", 0)
RECEIVES(recvfrom, THIS(recvfrom)(fd, buffer, 10, 0, (struct sockaddr *)NULL, NULL),
	 "'count':10,'flags':%d", 0)
RECEIVES(recvfrom_chk, THIS(__recvfrom_chk)(fd, buffer, 10, 20, 0, (struct sockaddr *)NULL, NULL),
	 "'count':10,'flags':%d", 0)
RECEIVES(recvmsg, THIS(recvmsg)(fd, &message, MSG_CMSG_CLOEXEC), "'flags':%u", MSG_CMSG_CLOEXEC)
#undef RECEIVES

static void case_mmsg(void)
{
	struct iovec piece[2] = { { buffer, 3 }, { buffer + 3, 2 } };
	struct mmsghdr message[2] = { { .msg_hdr = { .msg_iov = &piece[0], .msg_iovlen = 1 } },
				      { .msg_hdr = { .msg_iov = &piece[1], .msg_iovlen = 1 } } };
	bool sends = !strcmp(now->symbol, "sendmmsg");
	int pair[2], fd;

	raw_pair(pair);
	fd = pair[0];
	if (!sends)
		syscall(SYS_write, pair[1], "abcde", 5);
	for (unsigned i = 0; i < 2; i++) {
		if (sends)
			CALL(FN(sendmmsg)(fd, message, 2, 0));
		else
			CALL(FN(recvmmsg)(fd, message, 2, MSG_DONTWAIT, NULL));
		EXPECT(i ? NULL : UNIX, fd, "'count':%d,'flags':%d", i ? 0 : 5,
		       sends ? 0 : MSG_DONTWAIT);
		if (!i)
			closed(fd, UNIX);
		fd = 999;
	}
	raw_close(pair[1]);
}

static void case_getaddrinfo(void)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
					.ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;

	CALL(THIS(getaddrinfo)("127.0.0.1", "80", &hints, &found));
	EXPECT("dns:[127.0.0.1:80]", NO_FD, "%s", "");
	if (!result)
		freeaddrinfo(found);
	CALL(THIS(getaddrinfo)("no number", NULL, &hints, &found));
	EXPECT("dns:[no number]", NO_FD, "%s", "");
}

/* One descriptor has its name, several have their number; `call` has fds and count. */
#define POLLS(name, call, fields, ...)                                         \
	static void case_##name(void)                                          \
	{                                                                      \
		const struct timespec at_once = { 0, 0 };                      \
		struct pollfd both[2], *fds = both;                            \
		nfds_t count = 1;                                              \
		int pair[2];                                                   \
                                                                               \
		(void)at_once;                                                 \
		raw_pair(pair);                                                \
		both[0] = (struct pollfd){ .fd = pair[0], .events = POLLOUT }; \
		both[1] = (struct pollfd){ .fd = pair[1], .events = POLLOUT }; \
		CALL(call);                                                    \
		EXPECT(UNIX, NO_FD, fields, __VA_ARGS__);                      \
		closed(pair[0], UNIX);                                         \
		count = 2;                                                     \
		CALL(call);                                                    \
		EXPECT("fds:[2]", NO_FD, fields, __VA_ARGS__);                 \
		raw_close(pair[1]);                                            \
		fds = (struct pollfd *)BAD;                                    \
		CALL(call);                                                    \
		EXPECT("fds:[2]", NO_FD, fields, __VA_ARGS__);                 \
		count = 0;                                                     \
		CALL(call);                                                    \
		EXPECT("fds:[0]", NO_FD, fields, __VA_ARGS__);                 \
	}

POLLS(poll, THIS(poll)(fds, count, 0), "'timeout':%d", 0)
POLLS(poll_chk, THIS(__poll_chk)(fds, count, 0, sizeof(both)), "'timeout':%d", 0)
POLLS(ppoll, THIS(ppoll)(fds, count, &at_once, NULL), "%s", "")
POLLS(ppoll_chk, THIS(__ppoll_chk)(fds, count, &at_once, NULL, sizeof(both)), "%s", "")
#undef POLLS

static void case_select(void)
{
	struct timeval now_us = { 0, 0 };
	struct timespec now_ns = { 0, 0 };
	bool p = !strcmp(now->symbol, "pselect");
	fd_set set, *sets[] = { &set, (fd_set *)BAD };
	int pair[2];

	raw_pair(pair);
	FD_ZERO(&set);
	FD_SET(pair[0], &set);
	for (unsigned i = 0; i < 2; i++) {
		if (p)
			CALL(FN(pselect)(pair[1] + 1, NULL, sets[i], NULL, &now_ns, NULL));
		else
			CALL(FN(select)(pair[1] + 1, NULL, sets[i], NULL, &now_us));
		expect_head(now->canonical, now->category);
		put_expected("'fname':'fds:[<%d]',", pair[1] + 1);
		expect_args(NULL, NO_FD, result, result == -1);
		expect_fields("%s", "");
	}
	raw_close(pair[0]);
	raw_close(pair[1]);
}

static void epolls(int fd)
{
	const struct timespec at_once = { 0, 0 };
	struct epoll_event event;

	if (!strcmp(now->symbol, "epoll_wait"))
		CALL(FN(epoll_wait)(fd, &event, 1, 0));
	else if (!strcmp(now->symbol, "epoll_pwait"))
		CALL(FN(epoll_pwait)(fd, &event, 1, 0, NULL));
	else
		CALL(FN(epoll_pwait2)(fd, &event, 1, &at_once, NULL));
}

static void case_epoll_wait(void)
{
	bool two = !strcmp(now->symbol, "epoll_pwait2");
	int fd = (int)syscall(SYS_epoll_create1, 0);

	epolls(fd);
	EXPECT("anon_inode:[eventpoll]", fd, "%s", two ? "" : "'timeout':0");
	closed(fd, "anon_inode:[eventpoll]");
	epolls(999);
	EXPECT(NULL, 999, "%s", two ? "" : "'timeout':0");
}

static void case_eventfd(void)
{
	bool reads = !strcmp(now->symbol, "eventfd_read");
	int fd = (int)syscall(SYS_eventfd2, 1, EFD_NONBLOCK);
	eventfd_t value = 0;

	for (unsigned i = 0; i < 2; i++) { /* the second read finds nothing */
		if (reads)
			CALL(FN(eventfd_read)(fd, &value));
		else
			CALL(FN(eventfd_write)(fd, 1));
		EXPECT("anon_inode:[eventfd]", fd, "%s", "");
	}
	say("%d\n", (int)value);
	closed(fd, "anon_inode:[eventfd]");
}
