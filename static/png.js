// A chart as an image of dots: the server's picture, painted by the browser, at twice the size for screens and slides.

const SCALE = 2;

function load(address) {
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => resolve(image);
    image.onerror = reject;
    image.src = address;
  });
}

async function save(address) {
  const image = await load(address);
  const canvas = document.createElement("canvas");
  canvas.width = SCALE * image.naturalWidth;
  canvas.height = SCALE * image.naturalHeight;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  const dots = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(dots);
  link.download = `${new URL(address).pathname.split("/").pop().replace(/\.svg$/, "")}.png`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Beside the picture's own address.
export function offerDots(ways) {
  const picture = ways.querySelector('a[href*=".svg"]');
  if (!picture || ways.querySelector("[data-dots]")) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "link";
  button.dataset.dots = "";
  button.textContent = "PNG";
  button.setAttribute("aria-label", picture.getAttribute("aria-label").replace("SVG", "PNG"));
  button.addEventListener("click", () => save(picture.href));
  picture.after(" ", button);
}
