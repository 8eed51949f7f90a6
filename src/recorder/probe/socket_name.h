/* recorder/probe/socket_name.h - what a socket is called in a trace: by its peer or its own address.
 *
 *	socket:[tcp 10.0.0.1:29500]		connected to that peer
 *	socket:[tcp *:29500 listen]		listening there
 *	socket:[udp 10.0.0.7:53 bound]		not connected; its own address
 *	socket:[unix /run/x.sock], socket:[unix @x], socket:[unix]
 */
#pragma once

#include <stddef.h>
#include <sys/socket.h>

/* More than any name has. */
#define PFW_SOCKET_NAME_BYTES 256

/* The name of an open socket, from the kernel.  Its length; 0: unknown kind, or no socket.  Thread: app.
 * Signal: safe. */
size_t pfw_socket_name(int fd, char name[PFW_SOCKET_NAME_BYTES]);

/* The name that the socket fd has once it is connected to this address, which the kernel has read;
 * 0 as above.  Thread: app.  Signal: safe. */
size_t pfw_socket_name_to(int fd, const struct sockaddr_storage *address, socklen_t bytes,
			  char name[PFW_SOCKET_NAME_BYTES]);
