/* faults.h - what the shim says to inject: system calls that no kernel has. */
#pragma once

#define FAULTS_ASK \
	0xfa170 /* (name, whether the recorder itself calls): the error that this call is to fail with, or 0 */
#define FAULTS_ENTER 0xfa171 /* what this thread calls from here on is the recorder's */
#define FAULTS_LEAVE 0xfa172
