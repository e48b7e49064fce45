// Questions to the server, which answers with JSON.

export async function ask(path, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  const answer = await fetch(`/api/${path}${query ? `?${query}` : ""}`, { cache: "no-cache" });
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error ?? `the server answers ${answer.status}`);
  return content;
}

export function mediaAddress(run, media) {
  return `/files/${[run, media.folder, media.name].map(encodeURIComponent).join("/")}`;
}
