// Frames between the server and its worker, over one stream socket.
//
// A frame is its length, a kind, the number of the call, the length of the head, the head (a JSON object) and the body
// (bytes). The server sends CALL, then NEXT for each further part of a stream, or CANCEL once. The worker sends LOADED or
// FAILED once, and for each call one final frame: ANSWER without `stream`, END or ERROR. An ANSWER with `stream` is
// followed by one CHUNK or final frame for each NEXT: the server pulls, so that a slow client slows the handler.

export const CALL = 1, NEXT = 2, CANCEL = 3;
export const LOADED = 11, FAILED = 12, ANSWER = 13, CHUNK = 14, END = 15, ERROR = 16;

const PREFIX = 13;
const NO_BYTES = Buffer.alloc(0);

/** The pieces of one frame, to be written one after the other. */
export function encode(kind, call, head, body = NO_BYTES) {
  const text = head ? Buffer.from(JSON.stringify(head)) : NO_BYTES;
  const prefix = Buffer.allocUnsafe(PREFIX + text.length);
  prefix.writeUInt32BE(PREFIX - 4 + text.length + body.length, 0);
  prefix.writeUInt8(kind, 4);
  prefix.writeUInt32BE(call, 5);
  prefix.writeUInt32BE(text.length, 9);
  text.copy(prefix, PREFIX);
  return body.length > 0 ? [prefix, body] : [prefix];
}

/** Writes one frame to a socket. */
export function write(socket, kind, call, head, body) {
  if (socket.destroyed || socket.writableEnded) return;
  socket.cork();
  for (const piece of encode(kind, call, head, body)) socket.write(piece);
  socket.uncork();
}

/** Whether a frame is the last one of its call. */
export function isFinal({ kind, head }) {
  return kind === END || kind === ERROR || (kind === ANSWER && !head.stream);
}

/** Cuts what a socket delivers into frames. */
export class Decoder {
  #parts = [];
  #size = 0;
  #wanted = PREFIX; // bytes that must be there before it is worth looking

  /** Takes more bytes and yields each frame that is complete. */
  *feed(data) {
    this.#parts.push(data);
    this.#size += data.length;
    while (this.#size >= this.#wanted) {
      const buffer = this.#parts.length === 1 ? this.#parts[0] : Buffer.concat(this.#parts, this.#size);
      const end = buffer.readUInt32BE(0) + 4;
      this.#parts = [buffer];
      if (this.#size < end) {
        this.#wanted = end;
        return;
      }
      this.#parts = [buffer.subarray(end)];
      this.#size -= end;
      this.#wanted = PREFIX;
      yield decode(buffer.subarray(0, end));
    }
  }
}

function decode(buffer) {
  const bodyAt = PREFIX + buffer.readUInt32BE(9);
  return {
    kind: buffer.readUInt8(4),
    call: buffer.readUInt32BE(5),
    head: bodyAt > PREFIX ? JSON.parse(buffer.toString('utf8', PREFIX, bodyAt)) : {},
    body: buffer.subarray(bodyAt),
  };
}
