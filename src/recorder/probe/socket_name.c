/* recorder/probe/socket_name.c - what a socket is called in a trace; see socket_name.h. */
#include "recorder/probe/socket_name.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include "common/base/os.h"
#include "common/base/text.h"

/* These calls only read the socket's state, so the program sees no difference. */
static int option_of(int fd, int option)
{
	socklen_t bytes = sizeof(int);
	int value = 0;

	if (pfw_syscall6(SYS_getsockopt, fd, SOL_SOCKET, option, (long)&value, (long)&bytes, 0) < 0)
		return -1;
	return value;
}

static socklen_t address_of(int fd, long call, struct sockaddr_storage *address)
{
	socklen_t bytes = sizeof(*address);

	if (pfw_syscall6(call, fd, (long)address, (long)&bytes, 0, 0, 0) < 0)
		return 0;
	return bytes < sizeof(*address) ? bytes : sizeof(*address);
}

static const char *protocol_of(int fd)
{
	static const struct {
		int number;
		const char *name;
	} known[] = {
		{ IPPROTO_TCP, "tcp" },	  { IPPROTO_UDP, "udp" },     { IPPROTO_ICMP, "icmp" },
		{ IPPROTO_SCTP, "sctp" }, { IPPROTO_ICMPV6, "icmp" }, { 262, "mptcp" },
	};
	int number = option_of(fd, SO_PROTOCOL);

	for (size_t i = 0; i < PFW_ARRAY_LEN(known); i++)
		if (known[i].number == number)
			return known[i].name;
	return "ip";
}

static void add_v4(struct pfw_text *text, const uint8_t ip[4])
{
	for (unsigned i = 0; i < 4; i++) {
		if (i)
			pfw_text_add(text, ".");
		pfw_text_add_u64(text, ip[i], 1);
	}
}

static unsigned group(const uint8_t ip[16], unsigned i)
{
	return (unsigned)ip[2 * i] << 8 | ip[2 * i + 1];
}

static void add_group(struct pfw_text *text, unsigned value)
{
	static const char digits[] = "0123456789abcdef";
	int shift = 12;

	while (shift && !(value >> shift))
		shift -= 4;
	for (; shift >= 0; shift -= 4)
		pfw_text_add_bytes(text, &digits[value >> shift & 15], 1);
}

/* As RFC 5952 has it: the longest run of zeros, of two groups at least, is "::". */
static void add_v6(struct pfw_text *text, const uint8_t ip[16])
{
	unsigned from = 8, length = 1;

	for (unsigned i = 0, run = 0; i < 8; i++) {
		run = group(ip, i) ? 0 : run + 1;
		if (run > length) {
			length = run;
			from = i + 1 - run;
		}
	}
	pfw_text_add(text, "[");
	for (unsigned i = 0; i < 8; i++) {
		if (i == from) {
			pfw_text_add(text, "::");
			i += length - 1;
			continue;
		}
		if (i && i != from + length)
			pfw_text_add(text, ":");
		add_group(text, group(ip, i));
	}
	pfw_text_add(text, "]");
}

static bool is_zero(const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (bytes[i])
			return false;
	return true;
}

/* "10.0.0.1:29500"; "*" is any address. */
static void add_inet(struct pfw_text *text, const struct sockaddr_storage *address)
{
	static const uint8_t v4_in_v6[12] = { [10] = 0xff, [11] = 0xff };
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	bool is_v4 = address->ss_family == AF_INET;
	const uint8_t *ip;

	memcpy(&v4, address, sizeof(v4));
	memcpy(&v6, address, sizeof(v6));
	ip = is_v4 ? (const uint8_t *)&v4.sin_addr : v6.sin6_addr.s6_addr;
	if (!is_v4 && !memcmp(ip, v4_in_v6, sizeof(v4_in_v6))) {
		is_v4 = true;
		ip += sizeof(v4_in_v6);
	}
	if (is_zero(ip, is_v4 ? 4 : 16))
		pfw_text_add(text, "*");
	else if (is_v4)
		add_v4(text, ip);
	else
		add_v6(text, ip);
	pfw_text_add(text, ":");
	pfw_text_add_u64(text, ntohs(address->ss_family == AF_INET ? v4.sin_port : v6.sin6_port),
			 1);
}

/* A path, or '@' and the name of an abstract one, as in /proc/net/unix; false: it has none. */
static bool add_unix(struct pfw_text *text, const struct sockaddr_storage *address, socklen_t bytes)
{
	const size_t head = offsetof(struct sockaddr_un, sun_path);
	const char *path = (const char *)address + head;
	size_t length = bytes > head ? bytes - head : 0;

	if (!length)
		return false;
	pfw_text_add(text, " ");
	if (*path)
		length = strnlen(path, length);
	for (size_t i = 0; i < length; i++)
		pfw_text_add_bytes(text, path[i] ? &path[i] : "@", 1);
	return true;
}

static bool is_inet(const struct sockaddr_storage *address, socklen_t bytes)
{
	return (address->ss_family == AF_INET && bytes >= sizeof(struct sockaddr_in)) ||
	       (address->ss_family == AF_INET6 && bytes >= sizeof(struct sockaddr_in6));
}

size_t pfw_socket_name_to(int fd, const struct sockaddr_storage *address, socklen_t bytes,
			  char name[PFW_SOCKET_NAME_BYTES])
{
	struct pfw_text text;

	pfw_text_init(&text, name, PFW_SOCKET_NAME_BYTES);
	if (bytes > sizeof(address->ss_family) && is_inet(address, bytes)) {
		PFW_TEXT_ADD(&text, "socket:[", protocol_of(fd), " ");
		add_inet(&text, address);
	} else if (bytes > sizeof(address->ss_family) && address->ss_family == AF_UNIX) {
		pfw_text_add(&text, "socket:[unix");
		add_unix(&text, address, bytes);
	} else {
		return 0;
	}
	pfw_text_add(&text, "]");
	return (size_t)(text.at - text.start);
}

static void add_unconnected(struct pfw_text *text, int fd, struct sockaddr_storage *address)
{
	socklen_t bytes = address_of(fd, SYS_getsockname, address);
	struct sockaddr_in v4; /* both kinds have the port at the same place */

	PFW_TEXT_ADD(text, "socket:[", protocol_of(fd));
	memcpy(&v4, address, sizeof(v4));
	if (bytes && is_inet(address, bytes) && v4.sin_port) {
		pfw_text_add(text, " ");
		add_inet(text, address);
		pfw_text_add(text, option_of(fd, SO_ACCEPTCONN) > 0 ? " listen" : " bound");
	}
}

size_t pfw_socket_name(int fd, char name[PFW_SOCKET_NAME_BYTES])
{
	struct sockaddr_storage address;
	socklen_t bytes = address_of(fd, SYS_getpeername, &address);
	struct pfw_text text;
	int domain;

	if (bytes && is_inet(&address, bytes))
		return pfw_socket_name_to(fd, &address, bytes, name);
	domain = option_of(fd, SO_DOMAIN);
	pfw_text_init(&text, name, PFW_SOCKET_NAME_BYTES);
	if (domain == AF_INET || domain == AF_INET6) {
		add_unconnected(&text, fd, &address);
	} else if (domain == AF_UNIX) {
		pfw_text_add(&text, "socket:[unix");
		/* A server's end: the peer has no name, but the server has. */
		if (!bytes || !add_unix(&text, &address, bytes)) {
			bytes = address_of(fd, SYS_getsockname, &address);
			if (bytes)
				add_unix(&text, &address, bytes);
		}
		if (option_of(fd, SO_ACCEPTCONN) > 0)
			pfw_text_add(&text, " listen");
	} else if (domain == AF_NETLINK) {
		pfw_text_add(&text, "socket:[netlink");
	} else {
		return 0;
	}
	pfw_text_add(&text, "]");
	return (size_t)(text.at - text.start);
}
