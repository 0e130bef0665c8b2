package proxy

import "io"

// idleBytes is the buffer of a direction of a tunnel in which little passes. Most WebSockets are idle for most of the time, and there are many.
const idleBytes = 512

// pump copies until src ends. It borrows a large buffer only while src fills the small one.
func pump(dst io.Writer, src io.Reader, buffers *bufferPool) (copied int64, err error) {
	small := make([]byte, idleBytes)
	for {
		n, err := pass(dst, src, small)
		copied += int64(n)
		if err == nil && n == len(small) {
			large := buffers.Get()
			for err == nil && n >= len(small) {
				n, err = pass(dst, src, large)
				copied += int64(n)
			}
			buffers.Put(large)
		}
		switch err {
		case nil:
		case io.EOF:
			return copied, nil
		default:
			return copied, err
		}
	}
}

// pass copies what one Read gives.
func pass(dst io.Writer, src io.Reader, buffer []byte) (int, error) {
	n, readErr := src.Read(buffer)
	if n > 0 {
		if written, err := dst.Write(buffer[:n]); err != nil {
			return written, err
		}
	}
	return n, readErr
}
