// Solves a challenge in the form of ALTCHA v2: the page posts its parameters, and the worker posts back the solution, or
// {error}. A worker has its own thread, so the page stays responsive.

const bytes = (hex) => Uint8Array.from(hex.match(/../g), (byte) => parseInt(byte, 16));
const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");

async function solve({ nonce, salt, cost, keyLength, keyPrefix }) {
  const algorithm = { name: "PBKDF2", hash: "SHA-256", salt: bytes(salt), iterations: cost };
  const password = new Uint8Array([...bytes(nonce), 0, 0, 0, 0]);
  const end = new DataView(password.buffer, password.length - 4);
  for (let counter = 0; ; counter++) {
    end.setUint32(0, counter);
    const key = await crypto.subtle.importKey("raw", password, "PBKDF2", false, ["deriveBits"]);
    const derivedKey = hex(await crypto.subtle.deriveBits(algorithm, key, 8 * keyLength));
    if (derivedKey.startsWith(keyPrefix)) return { counter, derivedKey };
  }
}

onmessage = ({ data }) => solve(data).then(postMessage, (error) => postMessage({ error: String(error) }));
