// What this browser keeps: lists under a key. A browser may refuse.

export function readList(key, name) {
  try {
    const kept = JSON.parse(localStorage.getItem(key))?.[name];
    return Array.isArray(kept) ? kept : [];
  } catch {
    return [];
  }
}

// Says whether it was kept.
export function keepList(key, name, list) {
  try {
    localStorage.setItem(key, JSON.stringify({ version: 1, [name]: list }));
    return true;
  } catch {
    return false;
  }
}
